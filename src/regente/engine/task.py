"""The task, as its pipeline sees it: arguments, durable steps, loops, sleep, transactions,
heartbeats.

Every write goes through the task store under the attempt's fence; a refused write raises
`LeaseLost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Literal, NoReturn, overload

import psycopg
from typing_extensions import TypeVar

from regente.engine.codec import decode, encode, is_storable, return_hint, validate
from regente.engine.crashpoints import crash_point
from regente.engine.database import TaskConnection, is_lost
from regente.engine.errors import (
    Fatal,
    Held,
    InvalidArgs,
    InvalidInput,
    LeaseLost,
    Skip,
    Suspended,
    TaskError,
    Throttled,
    Transient,
)
from regente.engine.hooks import current_observer
from regente.engine.isolation import run_isolated
from regente.engine.outcome import Snapshot, storable
from regente.engine.pipeline import Pipeline
from regente.engine.task_store import Claim, StepRecord, TaskStore
from regente.engine.threads import run_in_thread

ArgsT = TypeVar("ArgsT", default=Any)
T = TypeVar("T")

MAX_NAME_CHARACTERS = 200
RESERVED_EVENTS = ("task_", "step_", "batch_", "runner_", "pipeline_")
MAX_SNAPSHOTS = 10
MAX_SNAPSHOT_BYTES = 2 * 1024 * 1024
HEARTBEAT_EVERY_SECONDS = 5.0

StopReason = Literal["cancel", "drain", "lost"]


class Task(Generic[ArgsT]):
    """One attempt at one task. The names of its steps are the checkpoints that users see."""

    __slots__ = (
        "_args",
        "_beat_at",
        "_calls",
        "_claim",
        "_lost",
        "_marked_at",
        "_memory",
        "_pipeline",
        "_snapshots",
        "_started_at",
        "_store",
        "_thread_id",
        "context",
        "standing",
        "stopping",
    )

    def __init__(self, claim: Claim, pipeline: Pipeline, store: TaskStore) -> None:
        self._claim = claim
        self._pipeline = pipeline
        self._store = store
        self._args: Any = None
        self._memory: dict[tuple[str, int], str | None] | None = None
        self._calls: dict[str, int] | None = None
        self._snapshots: list[Snapshot] = []
        self._lost = False
        self._thread_id: int | None = None
        self._started_at = self._beat_at = self._marked_at = time.monotonic()
        self.standing: str | None = None
        self.context: dict[str, Any] = {}
        self.stopping: StopReason | None = None  # why it is being cancelled, if it is

    @property
    def id(self) -> int:
        return self._claim.id

    @property
    def pipeline(self) -> str:
        return self._claim.pipeline

    @property
    def batch_id(self) -> int | None:
        return self._claim.batch_id

    @property
    def attempt(self) -> int:
        """The number of the attempt, raised by every claim: the fence of all its writes."""
        return self._claim.attempt

    @property
    def tries(self) -> int:
        """How many attempts have failed by the task's own fault."""
        return self._claim.tries

    @property
    def resumed(self) -> bool:
        """True when an earlier attempt may have finished steps."""
        return self._claim.attempt > 1

    @property
    def args(self) -> ArgsT:
        """The arguments, as an instance of the pipeline's declared type."""
        if self._args is None:
            raw = decode(self._claim.args)
            declared = self._pipeline.args_type
            try:
                self._args = (
                    raw
                    if declared is dict
                    else validate(raw, declared, what=f"{self.pipeline}'s arguments")
                )
            except InvalidArgs as error:
                raise Fatal(str(error), code="INVALID_ARGS") from error
        return self._args  # type: ignore[no-any-return]

    def idempotency_key(self, step: str) -> str:
        """The same key for every attempt at this step, for services that accept one."""
        return f"regente-{self.id}-{step}"

    async def done(self, step: str) -> bool:
        """True when an earlier attempt finished this step."""
        return (step, -1) in await self._recall()

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        isolated: bool = ...,
        timeout: float | None = ...,
        memory_mb: int | None = ...,
        **kwargs: Any,
    ) -> T: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., T],
        *args: Any,
        isolated: bool = ...,
        timeout: float | None = ...,
        memory_mb: int | None = ...,
        **kwargs: Any,
    ) -> T: ...

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        isolated: bool = False,
        timeout: float | None = None,
        memory_mb: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the function and store its result; later attempts get the stored result.

        A synchronous function runs in a thread; with `isolated` in a child process, limited by
        `timeout` (seconds) and `memory_mb`. The result must be storable as JSON and comes back as
        the function's declared return type.
        """
        key = self._numbered(name)
        memory = await self._recall()
        if (key, -1) in memory:
            return decode(memory[key, -1], return_hint(function))
        self._stand_at(key)
        started_at = time.monotonic()
        value = await self._watched(
            key, self._call(function, args, kwargs, isolated, timeout, memory_mb)
        )
        output = self._encoded(value, key)
        crash_point("step.before_record")
        await self._mark(
            StepRecord(
                self._claim, key, output=output, duration_ms=_ms_since(started_at), checkpoint=key
            )
        )
        crash_point("step.recorded")
        return decode(output, return_hint(function))

    @overload
    async def each(
        self,
        name: str,
        items: Iterable[Any],
        function: Callable[..., Awaitable[T]],
        *,
        concurrency: int = ...,
        isolated: bool = ...,
        timeout: float | None = ...,
        memory_mb: int | None = ...,
    ) -> list[T]: ...

    @overload
    async def each(
        self,
        name: str,
        items: Iterable[Any],
        function: Callable[..., T],
        *,
        concurrency: int = ...,
        isolated: bool = ...,
        timeout: float | None = ...,
        memory_mb: int | None = ...,
    ) -> list[T]: ...

    async def each(
        self,
        name: str,
        items: Iterable[Any],
        function: Callable[..., Any],
        *,
        concurrency: int = 1,
        isolated: bool = False,
        timeout: float | None = None,
        memory_mb: int | None = None,
    ) -> list[Any]:
        """Call the function once per item, `concurrency` at a time; results in the items' order.

        Each finished item is durable: a later attempt continues with the missing ones. The items
        must be the same at every attempt, so take them from a step.
        """
        key = self._numbered(name)
        memory = await self._recall()
        todo = list(items)
        hint = return_hint(function)
        results: dict[int, Any] = {
            index: decode(memory[key, index], hint)
            for index in range(len(todo))
            if (key, index) in memory
        }
        missing = iter([index for index in range(len(todo)) if index not in results])
        self._stand_at(key)

        async def work() -> None:
            for index in missing:
                started_at = time.monotonic()
                called = self._call(function, (todo[index],), {}, isolated, timeout, memory_mb)
                value = await self._watched(key, called)
                output = self._encoded(value, key)
                results[index] = decode(output, hint)
                share = len(results) / len(todo)
                await self._mark(
                    StepRecord(self._claim, key, index, output, _ms_since(started_at), key, share)
                )

        await _all_or_first_error(
            [work() for _ in range(max(1, min(concurrency, len(todo) - len(results))))]
        )
        return [results[index] for index in range(len(todo))]

    @contextlib.asynccontextmanager
    async def transaction(self, name: str | None = None) -> AsyncIterator[TaskConnection]:
        """A database transaction that also records the step: both are committed, or neither.

        Without a name no step is recorded: the block runs in every attempt, and is committed only
        while the attempt holds the task.

        When an earlier attempt committed the step, the block runs again in a transaction that is
        rolled back: what it reads is there, and what it writes happens once. To skip the block,
        check `done(name)` first.
        """
        key = None if name is None else self._numbered(name)
        replayed = key is not None and (key, -1) in await self._recall()
        self._stand_at(key or self.standing)
        started_at = time.monotonic()
        try:
            async with self._store.database.task_connection() as connection:
                if replayed:
                    async with _rolled_back(connection):
                        yield connection
                    return
                async with connection.transaction():
                    yield connection
                    mark = StepRecord(
                        self._claim, key, duration_ms=_ms_since(started_at), checkpoint=key
                    )
                    if self._lost or not await self._store.mark_on(connection, mark):
                        raise LeaseLost(
                            f"task {self.id} was taken over before {key or 'it'} was committed"
                        )
                    crash_point("transaction.before_commit")
        except psycopg.Error as error:
            if not is_lost(error) or isinstance(error, psycopg.errors.QueryCanceled):
                raise
            # Not the task's fault, so no try is charged. The wait grows, in case the block itself
            # overloads the server.
            wait_seconds = min(60.0, 0.5 * 2.0 ** min(self.attempt - 1, 7))
            raise Throttled(
                f"the database went away during {key or 'a transaction'}: {error}",
                retry_after=wait_seconds,
                code="DATABASE_LOST",
            ) from error
        self._beat_at = self._marked_at = time.monotonic()
        crash_point("transaction.committed")

    async def sleep(self, seconds: float) -> None:
        """Sleep durably: the task gives its slot back, and after the time an attempt, maybe in
        another runner, continues here."""
        key = self._numbered("sleep")
        if not math.isfinite(seconds):
            raise InvalidInput(f"a task sleeps for a number of seconds, not {seconds}")
        if seconds > 0 and (key, -1) not in await self._recall():
            raise Suspended(key, seconds)

    def hold(self, reason: str, error: TaskError | None = None) -> NoReturn:
        """Give the slot back until the task is released (`Regente.release`). Then a new attempt
        starts, with the stored results of finished steps.

        `error`, if one is the reason, is stored as the failure of this attempt; no try is charged.
        """
        raise Held(reason, error)

    async def progress(self, fraction: float | None = None, checkpoint: str | None = None) -> None:
        """Record how far the task is (0 to 1) and at which checkpoint. Committed when this
        returns."""
        share = None if fraction is None else max(0.0, min(1.0, float(fraction)))
        if checkpoint is not None:
            _check_name(checkpoint)
        await self._mark(StepRecord(self._claim, checkpoint=checkpoint, progress=share))

    def check_lease(self) -> None:
        """Raise `LeaseLost` when another runner may have taken over. Call it right before a request
        to another system."""
        if self._lost or self._store.lease_is_over():
            raise LeaseLost(f"task {self.id} was taken over")

    async def heartbeat(self) -> None:
        """Show that the task is alive. Cheap: written to the database every 5 seconds."""
        self._beat_at = time.monotonic()
        if self._beat_at - self._marked_at > HEARTBEAT_EVERY_SECONDS:
            await self._mark(StepRecord(self._claim))

    async def event(
        self, name: str, /, *, connection: TaskConnection | None = None, **details: Any
    ) -> None:
        """Add an event of the pipeline to the task's log, once for all attempts.

        With the connection of a `transaction` it is committed with that, or not at all.
        """
        if name.startswith(RESERVED_EVENTS):
            raise Fatal(
                f"{name!r} is reserved: events of the engine begin with "
                f"{', '.join(RESERVED_EVENTS)}",
                code="RESERVED_EVENT",
            )
        if connection is not None:
            await self._store.add_event_on(
                connection, self._claim, name, encode(details, what=f"the details of {name}")
            )
            return
        key = self._numbered(f"event:{name}")
        if (key, -1) in await self._recall():
            return
        text = encode(details, what=f"the details of {name}")
        if not await self._store.add_event(self._claim, key, name, text):
            raise LeaseLost(f"task {self.id} was taken over")
        self._beat_at = self._marked_at = time.monotonic()

    def snapshot(self, name: str, body: str | bytes, content_type: str = "text/html") -> None:
        """Keep a page, a screenshot or a response. It is stored if this attempt fails."""
        name, content_type = (
            storable(name)[:MAX_NAME_CHARACTERS],
            storable(content_type)[:MAX_NAME_CHARACTERS],
        )
        data = body.encode("utf-8", "backslashreplace") if isinstance(body, str) else bytes(body)
        kept = [snapshot for snapshot in self._snapshots if snapshot.name != name][
            -(MAX_SNAPSHOTS - 1) :
        ]
        cut = len(data) > MAX_SNAPSHOT_BYTES
        self._snapshots = [*kept, Snapshot(name, content_type, data[:MAX_SNAPSHOT_BYTES], cut)]

    def skip(self, reason: str) -> NoReturn:
        """End the task as skipped: there is nothing to do."""
        raise Skip(reason)

    # For the executor and the lease's thread.

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self._snapshots)

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._beat_at

    @property
    def running_seconds(self) -> float:
        return time.monotonic() - self._started_at

    @property
    def thread_id(self) -> int | None:
        return self._thread_id

    def lose(self) -> None:
        """Refuse all further writes of this attempt."""
        self._lost = True

    # Private, in call order.

    def _numbered(self, name: str) -> str:
        """The step's key. The n-th call of a name is a step of its own, so a loop may call
        `step("PAGE", …)` repeatedly."""
        _check_name(name)
        if self._calls is None:
            self._calls = {}
        count = self._calls[name] = self._calls.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    async def _recall(self) -> dict[tuple[str, int], str | None]:
        self.check_lease()
        if self._memory is None:
            self._memory = await self._store.recall(self.id) if self.resumed else {}
        return self._memory

    def _stand_at(self, key: str | None) -> None:
        self.standing = key
        self._beat_at = time.monotonic()

    def _watched(self, step: str, work: Awaitable[T]) -> Awaitable[T]:
        observer = current_observer.get()
        return work if observer is None else observer.step(self, step, work)

    async def _call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        isolated: bool,
        timeout: float | None,
        memory_mb: int | None,
    ) -> Any:
        if isolated:
            return await run_isolated(
                function,
                tuple(args),
                kwargs,
                timeout_seconds=timeout,
                memory_mb=memory_mb,
                on_start=lambda _: None,
            )
        called = self._called(function, args, kwargs)
        if timeout is None:
            return await called
        try:
            async with asyncio.timeout(timeout):
                return await called
        except TimeoutError as error:
            raise Transient(
                f"the step took longer than {timeout} s", code="STEP_TIMEOUT"
            ) from error

    async def _called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        try:
            if _is_async(function):
                return await function(*args, **kwargs)
            result = await run_in_thread(function, *args, on_start=self._in_thread, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except SystemExit as error:  # asyncio would end the event loop with it
            raise Transient(
                f"the step called sys.exit({error.code!r})", code="SystemExit"
            ) from error
        finally:
            self._thread_id = None

    def _in_thread(self, thread_id: int) -> None:
        self._thread_id = thread_id

    def _encoded(self, value: Any, key: str) -> str:
        try:
            return encode(value, what=f"the result of {key}")
        except InvalidInput as error:
            raise Fatal(str(error), code="INVALID_OUTPUT") from error

    async def _mark(self, mark: StepRecord) -> None:
        if self._lost or not await _to_the_end(self._store.marked.begin(mark)):
            raise LeaseLost(f"task {self.id} was taken over")
        self._beat_at = self._marked_at = time.monotonic()
        crash_point("mark.committed")


def _check_name(name: str) -> None:
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME_CHARACTERS
        or not is_storable(name)
    ):
        raise InvalidInput(
            f"{name!r:.100} cannot name a step: 1 to {MAX_NAME_CHARACTERS} characters, no NUL"
        )


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _ms_since(started_at: float) -> float:
    return round((time.monotonic() - started_at) * 1000, 3)


async def _to_the_end(written: asyncio.Future[bool]) -> bool:
    """Wait for the write even when the task is cancelled: a finished step is recorded first."""
    try:
        return await asyncio.shield(written)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await written
        raise


async def _all_or_first_error(work: list[Any]) -> None:
    """Wait for all; on the first error cancel the others and raise it."""
    running = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*running)
    except BaseException:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise


@contextlib.asynccontextmanager
async def _rolled_back(connection: TaskConnection) -> AsyncIterator[None]:
    """Roll back what the block writes; a conflict with the rows of its first run is no error."""
    with contextlib.suppress(psycopg.errors.IntegrityError):
        async with connection.transaction(force_rollback=True):
            yield
