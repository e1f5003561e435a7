"""Stores new tasks with their `task_queued` events, after checks of what PostgreSQL would refuse.

Single tasks from concurrent callers share a statement; many at once go by COPY.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from regente.engine.coalescer import Coalescer
from regente.engine.codec import MAX_ARGS_BYTES, encode, is_storable, validate
from regente.engine.crashpoints import crash_point
from regente.engine.database import (
    RETRY_SECONDS,
    TIES,
    Database,
    fetch_on,
    has_no_input,
    is_lost,
    number_array,
    text_array,
)
from regente.engine.errors import (
    DatabaseUnavailable,
    InvalidArgs,
    InvalidInput,
    NotFound,
    UnknownPipeline,
)
from regente.engine.hints import Hints, NewlyDue, new_tasks
from regente.engine.lanes import checked_lane
from regente.engine.nesting import in_task_transaction
from regente.engine.pipeline import Registry
from regente.engine.queries import query
from regente.engine.uniqueness import FOR_EVER, Enqueued, Uniqueness
from regente.engine.writable import ServerReadOnly

BATCH_WAIT = "2s"  # then the connection goes back to its pool for a moment: others have their turn
COPY_FROM = 200  # fewer go as one INSERT
CHUNK = 5_000
COPY_CHUNK = 1_000
MAX_KEY_CHARACTERS = 500
MAX_TIES = 5
IN_LANE = "3500-01-01 00:00:00+00"  # as regente.in_lane()

BY_PIPELINE: Any = object()
"""Marks that the pipeline's own function computes the lane."""


class NewTask(NamedTuple):
    pipeline: str
    args: str
    key: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    max_attempts: int | None = None
    batch_id: int | None = None
    draft: bool = False
    lane: str | None = None


class Stored(NamedTuple):
    """Stored tasks: their ids, how many of them are new, where to send hints, and the transaction
    that has to be committed first."""

    ids: list[int]
    added: int
    new: NewlyDue
    xid: str | None


Write = Callable[..., Awaitable[Stored]]
"""Stores tasks on a connection, with a limit on the wait for their batch."""


class Enqueuer:
    def __init__(self, database: Database, registry: Registry, hints: Hints) -> None:
        self._database = database
        self._registry = registry
        self._hints = hints
        self._known: set[str] = set()
        self._single: Coalescer[NewTask, int] = Coalescer(
            self._insert_unkeyed, max_batch=500, bytes_of=lambda task: len(task.args)
        )

    def start(self) -> None:
        self._single.start()

    async def stop(self) -> None:
        await self._single.stop()

    async def check_pipeline(
        self, name: str, connection: AsyncConnection[Any] | None = None
    ) -> None:
        """Refuse a pipeline that neither this process nor the database knows."""
        here = self._registry
        if isinstance(name, str) and (
            here.get(name) is not None or name in here.declared or name in self._known
        ):
            return
        rows = await (
            self._database.fetch("known_pipelines")
            if connection is None
            else fetch_on(connection, "known_pipelines", {})
        )
        self._known = {row[0] for row in rows}
        if not isinstance(name, str) or name not in self._known:
            known = ", ".join(sorted(self._known | set(self._registry.names))) or "none"
            raise UnknownPipeline(f"no pipeline is called {name!r}; known: {known}")

    def checked_args(self, pipeline: str, args: Any) -> str:
        """The arguments as JSON, after validation against the pipeline's type."""
        return self.checked(pipeline, args, None)[0]

    def checked(self, pipeline: str, args: Any, lane: Any = BY_PIPELINE) -> tuple[str, str | None]:
        """As `checked_args`, with the task's lane: the given one, or the pipeline's."""
        what = f"{pipeline}'s arguments"
        known = self._registry.get(pipeline)
        if known is not None and known.args_type is not dict:
            args = validate(args, known.args_type, what=what)
        text = encode(args, what=what, max_bytes=MAX_ARGS_BYTES)
        if not text.startswith("{"):
            raise InvalidArgs(f"{what} must be a JSON object, not {type(args).__name__}")
        if lane is not BY_PIPELINE:
            return text, checked_lane(lane)
        return text, None if known is None else known.lane_of(args)

    def knows_lanes_of(self, pipeline: str) -> bool | None:
        """Whether the pipeline's code, if this process has it, tells lanes."""
        known = self._registry.get(pipeline)
        return None if known is None else known.lane is not None

    async def one(
        self, task: NewTask, connection: AsyncConnection[Any] | None, uniqueness: Uniqueness
    ) -> Enqueued:
        plain = task.key is None and task.batch_id is None and connection is None
        # Not inside a transaction: the shared statement might wait for one that waits for it.
        if plain and not in_task_transaction():
            return Enqueued(await self._single.write(task))

        async def write(own: AsyncConnection[Any], batch_wait: str | None = None) -> Stored:
            if uniqueness == FOR_EVER:
                return await self._write(own, [task], batch_wait)
            return await _store_unique(own, task, uniqueness, batch_wait)

        stored = await self._store(task, connection, write)
        return Enqueued.of(stored.ids[0], stored.added == 1)

    async def many(
        self, tasks: Sequence[NewTask], connection: AsyncConnection[Any] | None
    ) -> list[int]:
        """Store all or none, in one transaction: the caller's, when a connection is given."""
        if not tasks:
            return []

        async def write(own: AsyncConnection[Any], batch_wait: str | None = None) -> Stored:
            return await self._write(own, tasks, batch_wait)

        return (await self._store(tasks[0], connection, write)).ids

    async def _store(
        self, like: NewTask, connection: AsyncConnection[Any] | None, write: Write
    ) -> Stored:
        if connection is None:
            return await self._retry_ties(like, lambda own: write(own, BATCH_WAIT))
        stored = await write(connection)
        if stored.xid is not None:
            self._hints.send_after(stored.xid, stored.new)
        return stored

    async def alike(self, like: NewTask, args: Sequence[Any], lane: Any) -> list[int]:
        """Store tasks that differ in their arguments and lanes only, by COPY in one transaction.

        PostgreSQL stores the first while the next are being checked; when one is refused, none is
        stored.
        """

        def checked() -> Iterator[tuple[str, str | None]]:
            return (self.checked(like.pipeline, one, lane) for one in args)

        known = self._registry.get(like.pipeline)
        laned = lane is not BY_PIPELINE or (known is not None and known.lane is not None)
        stored = await self._retry_ties(
            like,
            lambda own: self._within(
                own,
                like,
                lambda: self._copy(own, like, checked(), len(args), laned),
                BATCH_WAIT,
            ),
        )
        return stored.ids

    async def _retry_ties(
        self, like: NewTask, write: Callable[[AsyncConnection[Any]], Awaitable[Stored]]
    ) -> Stored:
        ties = 0
        while True:
            try:
                return await self._in_transaction(write)
            except TIES as tie:  # rolled back: another caller stores the same keys
                waits_for_batch = isinstance(tie, psycopg.errors.LockNotAvailable) and like.batch_id
                ties += 0 if waits_for_batch else 1
                if ties > MAX_TIES:
                    raise

    async def _in_transaction(
        self, write: Callable[[AsyncConnection[Any]], Awaitable[Stored]]
    ) -> Stored:
        async def store() -> Stored:
            async with self._database.transaction() as connection:
                stored = await write(connection)
                crash_point("enqueue.before_commit")
            return stored

        stored = await self._where_writable(store)
        crash_point("enqueue.committed")
        self._hints.send(stored.new)
        return stored

    async def _where_writable(self, store: Callable[[], Awaitable[Stored]]) -> Stored:
        """Store tasks once. A read-only server stored nothing: then once at another one."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                return await store()
            except ServerReadOnly as error:
                if time.monotonic() > deadline:
                    raise DatabaseUnavailable(str(error)) from error
                await asyncio.sleep(0.1)
            except psycopg.Error as error:
                if not is_lost(error):
                    raise
                raise _outcome_unknown(error) from error

    async def _write(
        self,
        connection: AsyncConnection[Any],
        tasks: Sequence[NewTask],
        batch_wait: str | None = None,
    ) -> Stored:
        like = tasks[0]
        if any(task.key is not None for task in tasks):
            return await self._within(
                connection, like, lambda: self._insert_keyed(connection, tasks), batch_wait
            )
        if goes_by_copy(like, len(tasks)):
            texts = ((task.args, task.lane) for task in tasks)
            laned = any(task.lane is not None for task in tasks)
            return await self._within(
                connection,
                like,
                lambda: self._copy(connection, like, texts, len(tasks), laned),
                batch_wait,
            )
        return await self._within(connection, like, lambda: _insert(connection, tasks), batch_wait)

    async def _within(
        self,
        connection: AsyncConnection[Any],
        like: NewTask,
        store: Callable[[], Awaitable[Stored]],
        batch_wait: str | None = None,
    ) -> Stored:
        """Store tasks into their batch, if they have one: lock it first, then add the new ones to
        its total. `batch_wait` limits the wait for the lock in a transaction of our own."""
        if like.batch_id is None:
            return await store()
        batch = {
            "batch_id": like.batch_id,
            # A call inside a task's transaction has a limit of its own.
            "within": None if in_task_transaction() else batch_wait,
        }
        if not await fetch_on(connection, "add_to_batch", {**batch, "count": 0}):
            raise NotFound(f"there is no batch {like.batch_id}")
        stored = await store()
        await fetch_on(connection, "add_to_batch", {**batch, "count": stored.added})
        return stored

    async def _insert_unkeyed(self, tasks: Sequence[NewTask]) -> list[int]:
        async def store() -> Stored:
            async with self._connection() as connection:
                return await self._insert_one_or_more(connection, tasks)

        stored = await self._where_writable(store)
        crash_point("enqueue.committed")
        self._hints.send(stored.new)
        return stored.ids

    async def _insert_one_or_more(
        self, connection: AsyncConnection[Any], tasks: Sequence[NewTask]
    ) -> Stored:
        if len(tasks) > 1:
            return await _insert(connection, tasks)
        [task] = tasks
        committed_by_itself = connection.info.transaction_status == TransactionStatus.IDLE
        if task.lane is not None:
            return await _insert(connection, tasks)
        if committed_by_itself and not task.draft and self._hints.may_send():
            [(task_id,)] = await fetch_on(connection, "store_task", task._asdict())
            return Stored([task_id], 1, NewlyDue(), None)
        [(task_id, first)] = await fetch_on(connection, "insert_task", task._asdict())
        return Stored([task_id], 1, new_tasks([(task.pipeline, task.priority, first, None)]), None)

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection that looks alive without a round trip, or one whose BEGIN has passed."""
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._database.connection())
            if not has_no_input(connection):
                await stack.aclose()
                connection = await stack.enter_async_context(self._database.transaction())
            yield connection

    async def _insert_keyed(
        self, connection: AsyncConnection[Any], tasks: Sequence[NewTask]
    ) -> Stored:
        """Store tasks with keys. A key that exists, in the database or earlier in the list, gives
        the id of its task and adds nothing."""
        ids: list[int] = []
        inserted: list[tuple[Any, ...]] = []
        for start in range(0, len(tasks), CHUNK):
            chunk = tasks[start : start + CHUNK]
            unkeyed = [task for task in chunk if task.key is None]
            rows = await _insert_rows(connection, unkeyed) if unkeyed else []
            fresh = iter([row[0] for row in rows])
            inserted += rows
            keyed = list(
                {
                    (task.pipeline, task.key): task
                    for task in reversed(chunk)
                    if task.key is not None
                }.values()
            )
            keyed.reverse()
            inserted += await _insert_rows(connection, keyed)
            found = {
                (pipeline, key): task_id
                for pipeline, key, task_id in await fetch_on(
                    connection,
                    "tasks_by_key",
                    {
                        "pipelines": text_array([task.pipeline for task in keyed]),
                        "keys": text_array([task.key for task in keyed]),
                    },
                )
            }
            ids += [
                next(fresh) if task.key is None else found[task.pipeline, task.key]
                for task in chunk
            ]
        return _stored(inserted)._replace(ids=ids)

    async def _copy(
        self,
        connection: AsyncConnection[Any],
        like: NewTask,
        texts: Iterable[tuple[str, str | None]],
        count: int,
        laned: bool,
    ) -> Stored:
        [(ids, first, xid)] = await fetch_on(connection, "reserve_task_ids", {"count": count})
        reserved = ids.split(",")
        batch = "\\N" if like.batch_id is None else like.batch_id
        limit = "\\N" if like.max_attempts is None else like.max_attempts
        before, after = f"\t{like.pipeline}\t", f"\t{like.priority}\t{limit}\t{batch}"
        new = NewlyDue()
        if laned:
            rows = _laned_lines(reserved, before, texts, after, first, like.pipeline, new)
            await _copy_rows(connection, "copy_laned_tasks", rows)
        else:
            # The backslash is the only character of JSON text that COPY would misread.
            rows = (
                task_id + before + args.replace("\\", "\\\\") + after + "\n"
                for task_id, (args, _) in zip(reserved, texts, strict=True)
            )
            await _copy_rows(connection, "copy_tasks", rows)
        await _copy_rows(
            connection,
            "copy_events",
            (f"{task_id}\t{batch}\ttask_queued\n" for task_id in reserved),
        )
        if not laned:
            new.add(like.pipeline, like.priority, first, None)
        return Stored([int(task_id) for task_id in reserved], count, new, xid)


def goes_by_copy(like: NewTask, count: int) -> bool:
    return count >= COPY_FROM and not like.draft and like.run_at is None


def check_options(
    keys: Iterable[str | None], priority: int, run_at: datetime | None, max_attempts: int | None
) -> None:
    """Refuse options that PostgreSQL would refuse, before anything is written."""
    for key in keys:
        if key is not None:
            _check_key(key)
    if not _is_whole(priority) or not -32768 <= priority <= 32767:
        raise InvalidInput(
            f"priority {priority!r} is out of range: a whole number from -32768 to 32767"
        )
    if max_attempts is not None and not (_is_whole(max_attempts) and 1 <= max_attempts <= 1000):
        raise InvalidInput(f"max_attempts is 1 to 1000, not {max_attempts!r}")
    if run_at is not None:
        _check_time(run_at)


def _check_time(run_at: object) -> None:
    if not isinstance(run_at, datetime) or run_at.tzinfo is None:
        raise InvalidInput("run_at needs a time zone, for example datetime.now(timezone.utc)")
    try:
        run_at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("run_at is a time of the years 1 to 9999, in UTC") from None


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARACTERS:
        raise InvalidInput(f"a key has 1 to {MAX_KEY_CHARACTERS} characters")
    if not is_storable(key):
        raise InvalidInput("the key contains a character that PostgreSQL cannot store")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _columns(tasks: Iterable[NewTask]) -> dict[str, str]:
    rows = list(tasks)
    return {
        "pipelines": text_array([task.pipeline for task in rows]),
        "args": text_array([task.args for task in rows]),
        "keys": text_array([task.key for task in rows]),
        "priorities": number_array([task.priority for task in rows]),
        "run_ats": text_array([task.run_at.isoformat() if task.run_at else None for task in rows]),
        "max_attempts": number_array([task.max_attempts for task in rows]),
        "batch_ids": number_array([task.batch_id for task in rows]),
        "drafts": text_array(["t" if task.draft else "f" for task in rows]),
        "lanes": text_array([task.lane for task in rows]),
    }


async def _insert(connection: AsyncConnection[Any], tasks: Sequence[NewTask]) -> Stored:
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(tasks), CHUNK):
        rows += await _insert_rows(connection, tasks[start : start + CHUNK])
    return _stored(rows)


async def _store_unique(
    connection: AsyncConnection[Any],
    task: NewTask,
    uniqueness: Uniqueness,
    batch_wait: str | None = None,
) -> Stored:
    """Store a task unless its key belongs to another one."""
    if task.batch_id is not None and batch_wait is not None and not in_task_transaction():
        await fetch_on(connection, "limit_lock_wait", {"limit": batch_wait})
    params = {**task._asdict(), **uniqueness._asdict()}
    [(task_id, created, first, xid)] = await fetch_on(connection, "store_unique", params)
    is_due = created or uniqueness.on_conflict == "replace"
    new = new_tasks([(task.pipeline, task.priority, first, task.lane)] if is_due else [])
    return Stored([task_id], int(created), new, xid)


async def _insert_rows(
    connection: AsyncConnection[Any], tasks: Sequence[NewTask]
) -> list[tuple[Any, ...]]:
    if any(task.lane is not None for task in tasks):
        return await fetch_on(connection, "insert_laned_tasks", _columns(tasks))
    rows = await fetch_on(connection, "insert_tasks", _columns(tasks))
    return [(*row[:-1], None, row[-1]) for row in rows]


def _stored(rows: Sequence[tuple[Any, ...]]) -> Stored:
    new = new_tasks(row[1:5] for row in rows)
    return Stored([row[0] for row in rows], len(rows), new, rows[-1][-1] if rows else None)


def _laned_lines(
    ids: Sequence[str],
    before: str,
    texts: Iterable[tuple[str, str | None]],
    after: str,
    first: float,
    pipeline: str,
    new: NewlyDue,
) -> Iterator[str]:
    """Lines of COPY for tasks of which some have a lane; adds to `new` where they are due."""
    now = datetime.fromtimestamp(first, UTC).isoformat()
    priority = int(after.split("\t")[1])
    for task_id, (args, lane) in zip(ids, texts, strict=True):
        new.add(pipeline, priority, first, lane)
        due = f"\t{now}\t\\N\t\\N" if lane is None else f"\t{IN_LANE}\t{now}\t{escaped(lane)}"
        yield task_id + before + escaped(args) + after + due + "\n"


def escaped(text: str) -> str:
    """Escape the text for COPY."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


async def _copy_rows(connection: AsyncConnection[Any], name: str, lines: Iterable[str]) -> None:
    """COPY the lines in chunks: PostgreSQL stores one while the next is being made."""
    rows = iter(lines)
    async with connection.cursor() as cursor, cursor.copy(query(name)) as copy:
        while chunk := "".join(itertools.islice(rows, COPY_CHUNK)):
            await copy.write(chunk)


def _outcome_unknown(error: psycopg.Error) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"the database went away while tasks were being stored ({str(error).strip()}): "
        "they may or may not be there. "
        "With key= the same call can be repeated safely."
    )
