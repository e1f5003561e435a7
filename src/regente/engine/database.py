"""Connections to PostgreSQL: the pools, retries while it is away, and driver errors as ours.

It detects a transaction pooler between us and the server. It never relies on session state: through
a pooler each statement may run in another server process.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from regente.engine.errors import DatabaseUnavailable, IllegalTransition, InvalidInput
from regente.engine.queries import query
from regente.queries import Row

# PostgreSQL aborted this statement in favour of another one: a retry may pass.
TIES = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
FOREVER = float("inf")
RETRY_SECONDS = 10.0

# A statement must not wait for a vanished server longer than a lease lasts.
KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# The timeout ends a transaction of a frozen process, which would keep its locks. The generic plan
# has one index probe for each row, for arrays of any length; plans made for the values of the
# first executions, on a table without statistics, joined each row with each and took ten times as
# long.
OPTIONS = (
    "-c jit=off -c idle_in_transaction_session_timeout=5s -c plan_cache_mode=force_generic_plan"
)
TASK_OPTIONS = "-c jit=off"  # no timeout: a pipeline's own transaction may be idle for long

T = TypeVar("T")


class TaskConnection(AsyncConnection[Any]):
    """The connection of a pipeline's transaction: psycopg's, which also takes `$1` placeholders."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if isinstance(query, str) and params is not None and "$1" in query and "%" not in query:
            return await AsyncRawCursor(self).execute(query, params, **options)
        return await super().execute(query, params, **options)


class Database:
    """Two pools for one server: a small one for the engine's own statements, one for pipelines'
    transactions, so that pipelines that use up their connections do not keep the engine from
    writing.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self.url = url
        self.revive_with: Callable[[], object] | None = None  # restarts an embedded server
        self.through_pooler = False
        self.losses = 0  # how often a connection was lost
        self._pool_size = pool_size
        self._engine: AsyncConnectionPool[AsyncConnection[Any]] | None = None
        self._tasks: AsyncConnectionPool[TaskConnection] | None = None

    async def open(self) -> None:
        self.through_pooler = await self._finds_pooler()
        self._engine = AsyncConnectionPool(
            self.url,
            kwargs=self.connect_arguments(),
            min_size=1,
            max_size=4,
            open=False,
            name="regente-engine",
            timeout=30,
        )
        self._tasks = AsyncConnectionPool(
            self.url,
            connection_class=TaskConnection,
            kwargs=self.connect_arguments(TASK_OPTIONS),
            min_size=0,
            max_size=self._pool_size,
            check=_check_alive,  # a connection that died in the pool must not cost an attempt
            open=False,
            name="regente-tasks",
            timeout=60,
        )
        await self._engine.open(wait=True, timeout=30)
        await self._tasks.open()

    async def close(self) -> None:
        for pool in (self._engine, self._tasks):
            if pool is not None:
                await pool.close()

    def connect_arguments(self, options: str = OPTIONS) -> dict[str, Any]:
        """The arguments of every connection. A pooler forwards neither options nor prepared
        statements."""
        common: dict[str, Any] = {
            "autocommit": True,
            "application_name": "regente",
            "connect_timeout": 10,
            **KEEPALIVE,
        }
        if self.through_pooler:
            return {**common, "prepare_threshold": None}
        given = conninfo_to_dict(self.url).get("options") or ""
        return {**common, "prepare_threshold": 0, "options": f"{given} {options}".strip()}

    async def _finds_pooler(self) -> bool:
        try:
            async with await AsyncConnection.connect(
                self.url, autocommit=True, connect_timeout=10
            ) as connection:
                connection.prepare_threshold = None
                row = await (await connection.execute(query("backend_pid"))).fetchone()
                return row is None or row[0] != connection.info.backend_pid
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(
                f"cannot reach PostgreSQL at {self.safe_url}: {_first_line(error)}"
            ) from error

    @property
    def safe_url(self) -> str:
        """The URL without its password, for logs and messages."""
        parts = {
            key: value
            for key, value in conninfo_to_dict(self.url).items()
            if key not in ("password", "sslpassword")
        }
        return make_conninfo("", **parts)

    async def fetch(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        give_up_at: Callable[[], float] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run a named query. While the database is away, retry until `give_up_at`, in monotonic
        time.

        Only for statements that may be sent again when the first answer got lost.
        """
        return await self.retry_while_away(lambda: self._fetch_once(name, params or {}), give_up_at)

    async def fetch_dicts(self, name: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        return await self.retry_while_away(lambda: self._fetch_dicts_once(name, params or {}), None)

    async def run(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Run `work`, one statement, in its own transaction. Only for statements that may be
        sent again when the first answer got lost."""

        async def attempt() -> T:
            async with self.connection() as connection:
                return await work(connection)

        return await self.retry_while_away(attempt, None)

    async def retry_while_away(
        self, attempt: Callable[[], Awaitable[T]], give_up_at: Callable[[], float] | None
    ) -> T:
        """Retry while the database is away, until `give_up_at`. Only for what may be done twice."""
        deadline = time.monotonic() + RETRY_SECONDS
        pause_seconds = 0.05
        while True:
            try:
                return await attempt()
            except psycopg.Error as error:
                lost = is_lost(error)
                if not lost and not isinstance(error, TIES):
                    raise
                if time.monotonic() + pause_seconds > (give_up_at() if give_up_at else deadline):
                    if not lost:
                        raise
                    raise DatabaseUnavailable(
                        f"PostgreSQL at {self.safe_url} is away: {_first_line(error)}"
                    ) from error
                if lost:
                    self.losses += 1
                    await asyncio.to_thread(self.revive_now)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 1.0)

    async def _fetch_once(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        assert self._engine is not None, "the database is not open"
        async with self._engine.connection() as connection:
            return await fetch_on(connection, name, params)

    async def _fetch_dicts_once(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        assert self._engine is not None, "the database is not open"
        async with self._engine.connection() as connection, connection.transaction():
            # The filters differ from call to call: one plan for all of them would be slow for each.
            await connection.execute(query("plan_for_these_values"))
            async with connection.cursor(row_factory=dict_row) as cursor:
                return await (await cursor.execute(query(name), params, prepare=False)).fetchall()

    def revive_now(self) -> None:
        """Restart an embedded server that died. An error is suppressed: it would hide the one being
        handled."""
        if self.revive_with is not None:
            with contextlib.suppress(Exception):
                self.revive_with()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """One of the engine's own connections; each statement is a transaction."""
        assert self._engine is not None, "the database is not open"
        async with self._engine.connection() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """One transaction on one of the engine's own connections."""
        async with contextlib.AsyncExitStack() as stack:
            yield await self.retry_while_away(lambda: self._begin(stack), None)

    async def _begin(self, stack: contextlib.AsyncExitStack) -> AsyncConnection[Any]:
        # BEGIN may be retried on another connection: nothing was written before it.
        assert self._engine is not None, "the database is not open"
        async with contextlib.AsyncExitStack() as begun:
            connection = await begun.enter_async_context(self._engine.connection())
            await begun.enter_async_context(connection.transaction())
            stack.push_async_exit(begun.pop_all())
        return connection

    @contextlib.asynccontextmanager
    async def task_connection(self) -> AsyncIterator[TaskConnection]:
        assert self._tasks is not None, "the database is not open"
        async with self._tasks.connection() as connection:
            yield connection


class FilteredReads:
    """The database for reads with any combination of filters: a plan that serves all of them
    serves none, so each statement is planned for its values."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """As `Database.run`."""
        return await self._database.retry_while_away(lambda: self._once(work), None)

    async def _once(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(query("plan_for_these_values"))
            return await work(connection)


class DedicatedConnection:
    """A connection outside the pools, for frequent statements, one at a time.

    Taking a connection out of a pool and putting it back is a good part of the time between a hint
    and a claim.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: AsyncConnection[Any] | None = None

    async def fetch(
        self, name: str, params: Mapping[str, Any], give_up_at: Callable[[], float]
    ) -> list[tuple[Any, ...]]:
        """As `Database.fetch`."""
        return await self._database.retry_while_away(
            lambda: self._fetch_once(name, params), give_up_at
        )

    async def _fetch_once(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            arguments = self._database.connect_arguments()
            self._connection = await AsyncConnection.connect(self._database.url, **arguments)
        try:
            return await fetch_on(self._connection, name, params)
        except BaseException:  # lost, or cancelled during the statement
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def fetch_on(
    connection: AsyncConnection[Any], name: str, params: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Run a named query on a connection that the caller holds."""
    try:
        cursor = await connection.execute(query(name), params)
        return await cursor.fetchall() if cursor.description is not None else []
    except psycopg.Error as error:
        raise translated(error) from error


async def _check_alive(connection: AsyncConnection[Any]) -> None:
    """Check a pooled connection, with a round trip only when the server has sent something."""
    if not has_no_input(connection):
        await AsyncConnectionPool.check_connection(connection)


def has_no_input(connection: AsyncConnection[Any]) -> bool:
    """True when no unread bytes wait; a server that closes a connection leaves its error there."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)


def is_lost(error: BaseException) -> bool:
    """True when the server went away, shut down or ran out of resources: a retry may pass."""
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return True  # this process was frozen during a transaction
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] in ("08", "53", "57", "58")


def translated(error: psycopg.Error) -> Exception:
    """The error of ours for a SQLSTATE, or the same error."""
    if error.sqlstate == "RG001":
        return IllegalTransition(_first_line(error))
    if isinstance(error, errors.UntranslatableCharacter | errors.CharacterNotInRepertoire):
        return InvalidInput(f"text that PostgreSQL cannot store: {_first_line(error)}")
    return error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def number_array(values: Sequence[float | int | None]) -> str:
    """A PostgreSQL array literal; faster than the driver's adaptation of each element."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(values: Sequence[str | None]) -> str:
    return "{" + ",".join([_quoted(value) for value in values]) + "}"


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
