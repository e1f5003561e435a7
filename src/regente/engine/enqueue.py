"""Stores new tasks with their `task_queued` events, after checks of what PostgreSQL would refuse.

Single tasks from concurrent callers share a statement; many at once go by COPY.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection

from regente.engine.coalescer import Coalescer
from regente.engine.codec import MAX_ARGS_BYTES, encode, is_storable, validate
from regente.engine.crashpoints import crash_point
from regente.engine.database import (
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
from regente.engine.pipeline import Registry
from regente.engine.queries import query

COPY_FROM = 200  # fewer go as one INSERT
CHUNK = 5_000
COPY_CHUNK = 1_000
MAX_KEY_CHARACTERS = 500
MAX_TIES = 5


class NewTask(NamedTuple):
    pipeline: str
    args: str
    key: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    max_attempts: int | None = None
    batch_id: int | None = None
    draft: bool = False


class Enqueuer:
    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._known: set[str] = set()
        self._single: Coalescer[NewTask, int] = Coalescer(
            self._insert_unkeyed, max_batch=500, bytes_of=lambda task: len(task.args)
        )

    def start(self) -> None:
        self._single.start()

    async def stop(self) -> None:
        await self._single.stop()

    async def check_pipeline(self, name: str) -> None:
        """Refuse a pipeline that neither this process nor the database knows."""
        here = self._registry
        if isinstance(name, str) and (
            here.get(name) is not None or name in here.declared or name in self._known
        ):
            return
        self._known = {row[0] for row in await self._database.fetch("known_pipelines")}
        if not isinstance(name, str) or name not in self._known:
            known = ", ".join(sorted(self._known | set(self._registry.names))) or "none"
            raise UnknownPipeline(f"no pipeline is called {name!r}; known: {known}")

    def checked_args(self, pipeline: str, args: Any) -> str:
        """The arguments as JSON, after validation against the pipeline's type."""
        what = f"{pipeline}'s arguments"
        known = self._registry.get(pipeline)
        if known is not None and known.args_type is not dict:
            args = validate(args, known.args_type, what=what)
        text = encode(args, what=what, max_bytes=MAX_ARGS_BYTES)
        if not text.startswith("{"):
            raise InvalidArgs(f"{what} must be a JSON object, not {type(args).__name__}")
        return text

    async def one(self, task: NewTask, connection: AsyncConnection[Any] | None) -> int:
        if task.key is None and task.batch_id is None and connection is None:
            return await self._single.write(task)
        return (await self.many([task], connection))[0]

    async def many(
        self, tasks: Sequence[NewTask], connection: AsyncConnection[Any] | None
    ) -> list[int]:
        """Store all or none, in one transaction: the caller's, when a connection is given."""
        if not tasks:
            return []
        if connection is not None:
            return await self._write(connection, tasks)
        return await self._retry_ties(lambda own: self._write(own, tasks))

    async def alike(self, like: NewTask, args: Sequence[Any]) -> list[int]:
        """Store tasks that differ in their arguments only, by COPY in one transaction.

        PostgreSQL stores the first while the next are being checked; when one is refused, none is
        stored.
        """

        def checked() -> Iterator[str]:
            return (self.checked_args(like.pipeline, one) for one in args)

        return await self._retry_ties(
            lambda own: self._within(own, like, lambda: self._copy(own, like, checked(), len(args)))
        )

    async def _retry_ties(
        self, write: Callable[[AsyncConnection[Any]], Awaitable[list[int]]]
    ) -> list[int]:
        for _ in range(MAX_TIES):
            with contextlib.suppress(*TIES):  # rolled back: another caller stores the same keys
                return await self._in_transaction(write)
        return await self._in_transaction(write)

    async def _in_transaction(
        self, write: Callable[[AsyncConnection[Any]], Awaitable[list[int]]]
    ) -> list[int]:
        try:
            async with self._database.transaction() as connection:
                ids = await write(connection)
                crash_point("enqueue.before_commit")
        except psycopg.Error as error:
            if not is_lost(error):
                raise
            raise _outcome_unknown(error) from error
        crash_point("enqueue.committed")
        return ids

    async def _write(self, connection: AsyncConnection[Any], tasks: Sequence[NewTask]) -> list[int]:
        like = tasks[0]
        if any(task.key is not None for task in tasks):
            return await self._within(
                connection, like, lambda: self._insert_keyed(connection, tasks)
            )
        if goes_by_copy(like, len(tasks)):
            texts = (task.args for task in tasks)
            return await self._within(
                connection, like, lambda: self._copy(connection, like, texts, len(tasks))
            )
        return await self._within(connection, like, lambda: _insert(connection, tasks))

    async def _within(
        self,
        connection: AsyncConnection[Any],
        like: NewTask,
        store: Callable[[], Awaitable[tuple[list[int], int]]],
    ) -> list[int]:
        """Store tasks into their batch, if they have one: lock it first, then add the new ones to
        its total."""
        if like.batch_id is None:
            return (await store())[0]
        if not await fetch_on(connection, "add_to_batch", {"batch_id": like.batch_id, "count": 0}):
            raise NotFound(f"there is no batch {like.batch_id}")
        ids, new = await store()
        await fetch_on(connection, "add_to_batch", {"batch_id": like.batch_id, "count": new})
        return ids

    async def _insert_unkeyed(self, tasks: Sequence[NewTask]) -> list[int]:
        try:
            async with self._connection() as connection:
                if len(tasks) == 1:
                    return [
                        row[0]
                        for row in await fetch_on(connection, "insert_task", tasks[0]._asdict())
                    ]
                return (await _insert(connection, tasks))[0]
        except psycopg.Error as error:
            if not is_lost(error):
                raise
            raise _outcome_unknown(error) from error

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
    ) -> tuple[list[int], int]:
        """Store tasks with keys. A key that exists, in the database or earlier in the list, gives
        the id of its task and adds nothing."""
        new, ids = 0, []
        for start in range(0, len(tasks), CHUNK):
            chunk = tasks[start : start + CHUNK]
            unkeyed = [task for task in chunk if task.key is None]
            fresh = iter(
                [row[0] for row in await fetch_on(connection, "insert_tasks", _columns(unkeyed))]
                if unkeyed
                else []
            )
            keyed = list(
                {
                    (task.pipeline, task.key): task
                    for task in reversed(chunk)
                    if task.key is not None
                }.values()
            )
            keyed.reverse()
            new += len(unkeyed) + len(await fetch_on(connection, "insert_tasks", _columns(keyed)))
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
        return ids, new

    async def _copy(
        self, connection: AsyncConnection[Any], like: NewTask, texts: Iterable[str], count: int
    ) -> tuple[list[int], int]:
        reserved = (await fetch_on(connection, "reserve_task_ids", {"count": count}))[0][0].split(
            ","
        )
        batch = "\\N" if like.batch_id is None else like.batch_id
        limit = "\\N" if like.max_attempts is None else like.max_attempts
        before, after = f"\t{like.pipeline}\t", f"\t{like.priority}\t{limit}\t{batch}\n"
        # The backslash is the only character of JSON text that COPY would misread.
        rows = (
            task_id + before + args.replace("\\", "\\\\") + after
            for task_id, args in zip(reserved, texts, strict=True)
        )
        await _copy_rows(connection, "copy_tasks", rows)
        await _copy_rows(
            connection,
            "copy_events",
            (f"{task_id}\t{batch}\ttask_queued\n" for task_id in reserved),
        )
        await fetch_on(
            connection, "notify_queued", {"pipeline": like.pipeline, "priority": str(like.priority)}
        )
        return [int(task_id) for task_id in reserved], count


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
    if run_at is not None and (not isinstance(run_at, datetime) or run_at.tzinfo is None):
        raise InvalidInput("run_at needs a time zone, for example datetime.now(timezone.utc)")


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
    }


async def _insert(
    connection: AsyncConnection[Any], tasks: Sequence[NewTask]
) -> tuple[list[int], int]:
    ids: list[int] = []
    for start in range(0, len(tasks), CHUNK):
        ids += [
            row[0]
            for row in await fetch_on(
                connection, "insert_tasks", _columns(tasks[start : start + CHUNK])
            )
        ]
    return ids, len(ids)


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
