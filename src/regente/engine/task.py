"""The task, as its pipeline sees it: arguments, durable steps, loops, sleep, transactions,
heartbeats.

Every write goes through the task store under the attempt's fence; a refused write raises
`LeaseLost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Literal, NoReturn, overload

from typing_extensions import TypeVar

from regente.engine.attempt_tasks import StartedWork
from regente.engine.calls import StepCall, step_call
from regente.engine.children import Children, Failures, Spawned
from regente.engine.codec import decode, encode, validate
from regente.engine.crashpoints import crash_point
from regente.engine.database import TaskConnection
from regente.engine.effects import EffectsConnection
from regente.engine.errors import (
    Fatal,
    Held,
    InvalidArgs,
    InvalidInput,
    LeaseLost,
    ReplayMismatch,
    Skip,
    Suspended,
    TaskError,
)
from regente.engine.hooks import current_observer
from regente.engine.intents import Intents, OnUnknown
from regente.engine.lanes import Lane
from regente.engine.loops import all_or_first_error, each_to_its_end, or_stop
from regente.engine.outcome import Snapshot, storable
from regente.engine.pipeline import Pipeline
from regente.engine.replay import (
    EFFECTS,
    MAX_NAME_CHARACTERS,
    WHOLE,
    Memory,
    Replay,
    check_name,
    each_scoped,
    earlier_keys,
    recorded_for,
    scoped_key,
    stored,
)
from regente.engine.signals import NOT_GIVEN, SignalWait, check_wait
from regente.engine.step_work import Limits, run_step, run_with_connection
from regente.engine.task_store import Claim, Recorded, StepRecord, TaskStore
from regente.engine.transactions import OpenTransaction, fenced_transaction, ms_since

ArgsT = TypeVar("ArgsT", default=Any)
T = TypeVar("T")

RESERVED_EVENTS = ("task_", "step_", "batch_", "runner_", "pipeline_")
MAX_SNAPSHOTS = 10
MAX_SNAPSHOT_BYTES = 2 * 1024 * 1024
HEARTBEAT_EVERY_SECONDS = 5.0

StopReason = Literal["cancel", "drain", "lost"]
LaneOfItem = Callable[[Any], Lane | None]


class Task(Generic[ArgsT]):
    """One attempt at one task. The names of its steps are the checkpoints that users see."""

    __slots__ = (
        "_args",
        "_beat_at",
        "_claim",
        "_intents",
        "_lost",
        "_marked_at",
        "_pipeline",
        "_replay",
        "_snapshots",
        "_started_at",
        "_store",
        "_thread_id",
        "context",
        "current_step",
        "started",
        "stopping",
        "told",
    )

    def __init__(self, claim: Claim, pipeline: Pipeline, store: TaskStore) -> None:
        self._claim = claim
        self._pipeline = pipeline
        self._store = store
        self._args: Any = None
        self._replay = Replay()
        self._intents: Intents | None = None
        self._snapshots: list[Snapshot] = []
        self._lost = False
        self._thread_id: int | None = None
        self._started_at = self._beat_at = self._marked_at = time.monotonic()
        self.current_step: str | None = None
        self.started: StartedWork | None = None
        self.context: dict[str, Any] = {}
        self.stopping: StopReason | None = None  # why it is being cancelled, if it is
        self.told: BaseException | None = None  # the last error of a call that its lane heard of

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
        """The same key for every attempt at this step, for services that accept one.

        No other task has it: not in another installation, nor in one restored from a backup. In the
        function of an item of `each` it is the item's own.
        """
        installation, claim = self._store.installation, self._claim
        if claim.born_us <= installation.since_us:
            return f"regente-{claim.id}-{step}"
        return f"regente-{installation.id}-{claim.id}-{claim.born_us:x}-{scoped_key(step)}"

    async def done(self, step: str) -> bool:
        """True when an earlier attempt finished this step."""
        return WHOLE in (await self._recall()).get(scoped_key(step), {})

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        isolated: bool = ...,
        timeout: float | None = ...,
        memory_mb: int | None = ...,
        aliases: Sequence[str] = ...,
        on_unknown: OnUnknown = ...,
        lane: Lane | None = ...,
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
        aliases: Sequence[str] = ...,
        on_unknown: OnUnknown = ...,
        lane: Lane | None = ...,
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
        aliases: Sequence[str] = (),
        on_unknown: OnUnknown = "retry",
        lane: Lane | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the function and store its result; later attempts get the stored result.

        A synchronous function runs in a thread; with `isolated` in a child process, limited by
        `timeout` (seconds) and `memory_mb`. The result must be storable as JSON and comes back as
        the function's declared return type.

        A later attempt must ask for the same call: the same function with the same arguments. Else
        the task ends as a dead letter, `REPLAY_MISMATCH`. `aliases` are earlier names of the step
        and of the function, and texts of earlier calls.

        When an attempt ends between the call and its record (a crash, a timeout, a lost lease),
        it is unknown whether the call took effect. With `on_unknown="retry"` it is made again. With
        `"hold"` the intent is committed before the call, and the task waits for a person
        (`Regente.resolve`) instead of a second call.

        With `lane` the function is called when that lane has a place, as in `in_lane`.
        """
        key = self._replay.key(name)
        call = step_call(function, args, kwargs, aliases)
        recorded = recorded_for(await self._recall(), key, name, aliases)
        if WHOLE in recorded:
            return self._replay.result(key, recorded[WHOLE], call)
        call_text = self._of_a_step(key, recorded, call)
        self._begin_step(key)
        started_at = time.monotonic()
        work = partial(self._run, key, call, Limits(isolated, timeout, memory_mb))
        async with self._place(lane):
            if on_unknown == "hold":
                names = [key, *earlier_keys(key, name, aliases)]
                output, result = await self._once(names, WHOLE, call, work)
            else:
                output, result = stored(await work(), call.hint, key)
        crash_point("step.before_record")
        await self._mark(
            StepRecord(
                self._claim,
                key,
                output=output,
                duration_ms=ms_since(started_at),
                checkpoint=key,
                call=call_text,
            )
        )
        crash_point("step.recorded")
        return result

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
        aliases: Sequence[str] = ...,
        on_unknown: OnUnknown = ...,
        checkpoint: str | None = ...,
        lane: Lane | LaneOfItem | None = ...,
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
        aliases: Sequence[str] = ...,
        on_unknown: OnUnknown = ...,
        checkpoint: str | None = ...,
        lane: Lane | LaneOfItem | None = ...,
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
        aliases: Sequence[str] = (),
        on_unknown: OnUnknown = "retry",
        checkpoint: str | None = None,
        lane: Lane | LaneOfItem | None = None,
    ) -> list[Any]:
        """Call the function once per item, `concurrency` at a time; results in the items' order.

        Each finished item is durable: a later attempt continues with the missing ones. The items
        must be the same at every attempt, so take them from a step; another item in the place of a
        finished one is a `REPLAY_MISMATCH`. `on_unknown` is that of `step`, for each item; with
        `"hold"` an error lets the calls under way end. The task shows `checkpoint`, by default the
        loop's name, and how many items are done. `lane` is that of `step`, or a function that tells
        the lane of an item, or None.
        """
        key = self._replay.key(name)
        loop = step_call(function, aliases=aliases)
        recorded = recorded_for(await self._recall(), key, name, aliases)
        todo = list(items)
        results: dict[int, Any] = {}
        for index, done in recorded.items():
            if not 0 <= index < len(todo):
                raise self._replay.changed(key, done, f"a loop over {len(todo)} items")
            results[index] = self._replay.result(key, done, loop.with_item(todo[index]))
        missing = each_scoped(key, [index for index in range(len(todo)) if index not in results])
        self._begin_step(key)
        names = [key, *earlier_keys(key, name, aliases)]
        limits = Limits(isolated, timeout, memory_mb)

        async def work() -> None:
            for index in missing:
                started_at = time.monotonic()
                call = loop.with_item(todo[index])
                text = call.text
                run = partial(self._run, key, call, limits)
                place = lane(todo[index]) if callable(lane) else lane
                if on_unknown == "hold":
                    run_or_stop = partial(or_stop, run, missing)
                    once = partial(self._once, names, index, call, run_or_stop)
                    output, result = await or_stop(partial(self._placed, place, once), missing)
                else:
                    output, result = stored(await self._placed(place, run), call.hint, key)
                results[index] = result
                share = len(results) / len(todo)
                took_ms = ms_since(started_at)
                await self._mark(
                    StepRecord(
                        self._claim, key, index, output, took_ms, checkpoint or key, share, text
                    )
                )

        count = max(1, min(concurrency, len(todo) - len(results)))
        if on_unknown == "hold":
            await each_to_its_end(work, count, missing)
        else:
            await all_or_first_error(work, count)
        return [results[index] for index in range(len(todo))]

    async def transact(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        aliases: Sequence[str] = (),
        **kwargs: Any,
    ) -> T:
        """Call `function(connection, *args, **kwargs)` in a database transaction, and commit its
        result with what it wrote: both, or neither. Later attempts get the recorded result; the
        function is not called again.

        The function is async and may read, write and enqueue with the connection, as often as it
        likes. An error rolls everything back. Type, comparison and `aliases` are those of `step`.
        """
        key = self._replay.key(name)
        call = step_call(function, args, kwargs, aliases)
        recorded = recorded_for(await self._recall(), key, name, aliases)
        if WHOLE in recorded:
            replayed: T = self._replay.transacted(key, recorded[WHOLE], call)
            return replayed
        result: T
        async with self._transaction(key, self._of_a_step(key, recorded, call)) as opened:
            called = run_with_connection(call, opened.connection)
            opened.output, result = stored(await self._watched(key, called), call.hint, key)
        return result

    @overload
    def transaction(
        self, name: None = None
    ) -> contextlib.AbstractAsyncContextManager[TaskConnection]: ...

    @overload
    def transaction(
        self, name: str, *, aliases: Sequence[str] = ...
    ) -> contextlib.AbstractAsyncContextManager[EffectsConnection]: ...

    def transaction(
        self, name: str | None = None, *, aliases: Sequence[str] = ()
    ) -> contextlib.AbstractAsyncContextManager[Any]:
        """A database transaction as a block that has effects and no result.

        With a name the step is recorded in the same commit: both, or neither. The connection
        executes statements and returns nothing; when an earlier attempt committed the step, they
        are not executed. For anything that the pipeline goes on with, use `transact`. `aliases` are
        earlier names of the step.

        Without a name no step is recorded: the block has a full connection, runs in every attempt,
        and is committed only while the attempt holds the task.
        """
        return self._full() if name is None else self._effects(name, aliases)

    async def sleep(self, seconds: float) -> None:
        """Sleep durably: the task gives its slot back, and after the time an attempt, maybe in
        another runner, continues here."""
        key = self._replay.key("sleep")
        if not math.isfinite(seconds):
            raise InvalidInput(f"a task sleeps for a number of seconds, not {seconds}")
        if seconds > 0 and key not in await self._recall():
            raise Suspended(key, seconds)

    @overload
    async def wait_for(
        self, signal: str, of: type[T], *, timeout: float | None = ..., default: T = ...
    ) -> T: ...

    @overload
    async def wait_for(
        self, signal: str, of: Any = ..., *, timeout: float | None = ..., default: Any = ...
    ) -> Any: ...

    async def wait_for(
        self,
        signal: str,
        of: Any = Any,
        *,
        timeout: float | None = None,
        default: Any = NOT_GIVEN,
    ) -> Any:
        """Wait durably for a signal of this name (`Regente.signal`) and return its payload, as an
        instance of the type `of`.

        Each signal is received once, also one that was sent before. Meanwhile the task has no slot.
        A payload of another type is refused, with an event that says why, and the wait goes on.
        After `timeout` seconds the wait ends, for all attempts, with `default` or, without one,
        with `SignalTimeout`.
        """
        check_wait(signal, timeout)
        key = self._replay.key(f"signal:{signal}")
        recorded = (await self._recall()).get(key, {}).get(WHOLE)
        wait = SignalWait(self._claim, self._store, self._replay, key, signal, of)
        if recorded is not None:
            return wait.replayed(recorded, default)
        self._begin_step(key)
        return await wait.receive(timeout, default)

    @overload
    async def spawn(
        self,
        name: str,
        pipeline: str,
        args: Iterable[Any],
        *,
        of: type[T],
        first: int | None = ...,
        priority: int = ...,
        max_attempts: int | None = ...,
        stall_after: float = ...,
        aliases: Sequence[str] = ...,
    ) -> list[T]: ...

    @overload
    async def spawn(
        self,
        name: str,
        pipeline: str,
        args: Iterable[Any],
        *,
        of: Any = ...,
        first: int | None = ...,
        failures: Failures = ...,
        priority: int = ...,
        max_attempts: int | None = ...,
        stall_after: float = ...,
        aliases: Sequence[str] = ...,
    ) -> list[Any]: ...

    async def spawn(
        self,
        name: str,
        pipeline: str,
        args: Iterable[Any],
        *,
        of: Any = Any,
        first: int | None = None,
        failures: Failures = "raise",
        priority: int = 0,
        max_attempts: int | None = None,
        stall_after: float = 300.0,
        aliases: Sequence[str] = (),
    ) -> list[Any]:
        """Queue a task of the pipeline for each of the arguments, wait for them without a slot, and
        return their results in the order of the arguments, as instances of the type `of`.

        The children are stored once, also when a process crashes. With `first` the wait ends when
        so many have completed, and the others are canceled. When children fail or are canceled it
        raises `ChildrenFailed`; with `failures="return"` it returns a `Child` for each, with its
        status.
        Canceling the task cancels its children.
        """
        key = self._replay.key(name)
        recorded = recorded_for(await self._recall(), key, name, aliases)
        spawned = Spawned(
            pipeline, list(args), first, failures, priority, max_attempts, stall_after, of
        )
        spawned.check()
        names = [key, *earlier_keys(key, name, aliases)]
        children = Children(self._claim, self._store, self._replay, names, spawned)
        if WHOLE in recorded:
            return children.replayed(recorded[WHOLE])
        self._begin_step(key)
        return await children.results()

    @contextlib.asynccontextmanager
    async def in_lane(self, lane: Lane) -> AsyncIterator[None]:
        """Hold a place in the lane for a call that the block makes: it counts like a task of the
        lane, and what it raises tells the lane how it went.

        Waits for a place, at most half a minute; then it raises `LaneBusy`, which sends the task
        back to the queue and costs no try. A task that is in this lane itself has its place.
        """
        if lane.name == self._claim.lane:
            yield
            return
        stall_seconds = self._pipeline.stall_after_seconds or math.inf
        await self.heartbeat()
        call = await self._store.calls.enter(self._claim, lane, stall_seconds / 2, self.heartbeat)
        error: BaseException | None = None
        try:
            self.check_lease()  # the wait may have taken long
            self._beat_at = time.monotonic()
            yield
        except BaseException as raised:
            error = raised
            if isinstance(raised, Exception):  # not the cancellation of the other items of a loop
                self.told = raised
            raise
        finally:
            await self._store.calls.leave(call, error)

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
            check_name(checkpoint)
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

    def beat(self) -> None:
        """As `heartbeat`, from any thread, and without waiting for the database."""
        self._beat_at = time.monotonic()
        loop = self._store.loop
        if loop is not None and self._beat_at - self._marked_at > HEARTBEAT_EVERY_SECONDS:
            self._marked_at = self._beat_at
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the task with it
                loop.call_soon_threadsafe(self._hand_in_beat)

    async def event(
        self,
        name: str,
        /,
        *,
        connection: TaskConnection | EffectsConnection | None = None,
        **details: Any,
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
        key = self._replay.key(f"event:{name}")
        if key in await self._recall():
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

    # For the executor and the thread of `overdue.py`.

    @property
    def mismatch(self) -> ReplayMismatch | None:
        """A call that is not the one that was recorded."""
        return self._replay.mismatch

    @property
    def unknown(self) -> Held | None:
        """A call that a person has to decide on."""
        return None if self._intents is None else self._intents.unknown

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self._snapshots)

    def starts(self) -> StartedWork:
        """The record of asyncio tasks and threads that this attempt starts."""
        if self.started is None:
            self.started = StartedWork()
        return self.started

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

    @property
    def is_lost(self) -> bool:
        return self._lost

    # Private, in call order.

    async def _recall(self) -> Memory:
        self.check_lease()
        if self.mismatch is not None:  # the pipeline caught it: it goes no further
            raise self.mismatch
        if self.unknown is not None:
            raise self.unknown
        if self._replay.memory is None:
            self._replay.memory = await self._store.recall(self.id) if self.resumed else {}
        return self._replay.memory

    def _of_a_step(self, key: str, recorded: Mapping[int, Recorded], call: StepCall) -> str:
        """The call's text, if the step is not recorded as a loop."""
        text = call.text
        if recorded:
            raise self._replay.changed(key, next(iter(recorded.values())), f"{text}, not in a loop")
        return text

    def _begin_step(self, key: str | None) -> None:
        self.current_step = key
        self._beat_at = time.monotonic()

    def _watched(self, step: str, work: Awaitable[T]) -> Awaitable[T]:
        observer = current_observer.get()
        return work if observer is None else observer.step(self, step, work)

    def _place(self, lane: Lane | None) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext() if lane is None else self.in_lane(lane)

    async def _placed(self, lane: Lane | None, work: Callable[[], Awaitable[T]]) -> T:
        if lane is None:
            return await work()
        async with self.in_lane(lane):
            return await work()

    async def _run(self, step: str, call: StepCall, limits: Limits) -> Any:
        return await self._watched(step, run_step(call, limits, self._in_thread, self.beat))

    def _hand_in_beat(self) -> None:
        self._store.marked.hand_in(StepRecord(self._claim), self._beat_written, lambda *_: None)

    def _beat_written(self, _: StepRecord, passed: bool) -> None:
        if not passed:
            self.lose()

    async def _once(
        self,
        names: Sequence[str],
        item: int,
        call: StepCall,
        work: Callable[[], Awaitable[Any]],
    ) -> tuple[str, Any]:
        if self._intents is None:
            self._intents = Intents(self._claim, self._store, self._replay, self.check_lease)
        return await self._intents.once(names, item, call, work)

    def _in_thread(self, thread_id: int | None) -> None:
        self._thread_id = thread_id

    @contextlib.asynccontextmanager
    async def _full(self) -> AsyncIterator[TaskConnection]:
        async with self._transaction(None) as opened:
            yield opened.connection

    @contextlib.asynccontextmanager
    async def _effects(self, name: str, aliases: Sequence[str]) -> AsyncIterator[EffectsConnection]:
        key = self._replay.key(name)
        recorded = recorded_for(await self._recall(), key, name, aliases)
        if recorded:
            done = next(iter(recorded.values()))
            if done.call not in (None, EFFECTS):
                raise self._replay.changed(key, done, EFFECTS)
            self._begin_step(key)
            effects = EffectsConnection(None)
            yield effects
            effects.end()
            return
        async with self._transaction(key, EFFECTS) as opened:
            effects = EffectsConnection(opened.connection)
            yield effects
            effects.end()

    @contextlib.asynccontextmanager
    async def _transaction(
        self, key: str | None, call: str | None = None
    ) -> AsyncIterator[OpenTransaction]:
        self.check_lease()
        self._begin_step(key or self.current_step)
        record = StepRecord(self._claim, key, checkpoint=key, call=call)
        async with fenced_transaction(self._store, record, lambda: self._lost) as opened:
            yield opened
        self._beat_at = self._marked_at = time.monotonic()
        crash_point("transaction.committed")

    async def _mark(self, mark: StepRecord) -> None:
        if self._lost or not await _to_the_end(self._store.marked.begin(mark)):
            raise LeaseLost(f"task {self.id} was taken over")
        self._beat_at = self._marked_at = time.monotonic()
        crash_point("mark.committed")


async def _to_the_end(written: asyncio.Future[bool]) -> bool:
    """Wait for the write even when the task is cancelled: a finished step is recorded first."""
    try:
        return await asyncio.shield(written)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await written
        raise
