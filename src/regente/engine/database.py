"""Connections to PostgreSQL: the pools, retries while it is away, and driver errors as ours.

`nesting.py` says which pool waits for which.

It detects a transaction pooler between us and the server. It never relies on session state: through
a pooler each statement may run in another server process.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from regente.engine.effect_guard import refuse
from regente.engine.errors import (
    AlreadyEnqueued,
    DatabaseUnavailable,
    Fatal,
    IllegalTransition,
    InvalidInput,
    NotFound,
    RegenteError,
    RowLocked,
    StatementTimeout,
    TimelineOver,
    Transient,
)
from regente.engine.nesting import (
    CurrentConnection,
    current_connection,
    in_task_transaction,
    using_connection,
)
from regente.engine.pool_sizes import SHARE, PoolSizes
from regente.engine.queries import query
from regente.engine.silence import WatchedConnection
from regente.engine.writable import (
    ServerReadOnly,
    connect_to_writable,
    leave_read_only,
    why_unreachable,
)
from regente.queries import Row

# PostgreSQL aborted this statement in favour of another one: a retry may pass.
TIES = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
FOREVER = float("inf")
RETRY_SECONDS = 10.0
MAX_CANCELS = 5  # of one statement, by the server's statement_timeout or by an operator
TIE_SECONDS = 0.05
RECONNECT_SECONDS = 1.0  # between attempts of a pool to reconnect while the server is away

# A statement must not wait for a vanished server longer than a lease lasts.
KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# The same in the other direction: without it the locks of a machine that lost its power would stay.
SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=30000"
)

# The timeout ends a transaction of a frozen process, which would keep its locks. The generic plan
# has one index probe for each row, for arrays of any length; plans made for the values of the
# first executions, on a table without statistics, joined each row with each and took ten times as
# long.
OPTIONS = (
    "-c jit=off -c idle_in_transaction_session_timeout=5s -c plan_cache_mode=force_generic_plan "
    f"{SERVER_KEEPALIVE}"
)
# A runner waits for no lock for long. What must wait even less sets a timeout of its own, which
# does not count for locks on whole tables.
RUNNER_OPTIONS = f"{OPTIONS} -c lock_timeout=2s"
# A pipeline's own transaction may be idle for long. The limit is for a runner that is frozen where
# no other one may end its sessions.
TASK_OPTIONS = f"-c jit=off {SERVER_KEEPALIVE} -c idle_in_transaction_session_timeout="
IDLE_LEASES = 5

IDLE_SECONDS = 60.0  # then a pool closes connections that it does not need
BESIDE_LOCK_SECONDS = 10.0  # how long a call inside a transaction waits for a lock

T = TypeVar("T")
Connection = TypeVar("Connection", bound=AsyncConnection[Any])


class TaskConnection(WatchedConnection):
    """The connection of a pipeline's transaction: psycopg's, which also takes `$1` placeholders."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if params is not None and _has_dollars(query):
            return await AsyncRawCursor(self).execute(query, params, **options)
        return await super().execute(query, params, **options)

    async def execute_many(self, query: Any, params: Iterable[Any]) -> None:
        """Execute the statement once for each of the parameters."""
        async with AsyncRawCursor(self) if _has_dollars(query) else self.cursor() as cursor:
            await cursor.executemany(query, params)


class Database:
    """A server, and one pool of connections for statements and short transactions."""

    def __init__(
        self, url: str, *, name: str = "client", options: str = OPTIONS, connections: int = SHARE
    ) -> None:
        self.url = url
        self._options = options
        self._connections = connections
        self.application_name = "regente"
        self.revive_with: Callable[[], object] | None = None  # restarts an embedded server
        self.through_pooler = False
        self.losses = 0  # how often a connection was lost
        self._name = name
        self._pool: AsyncConnectionPool[WatchedConnection] | None = None

    async def enter(self, connection: AsyncConnection[Any]) -> None:
        """Every connection begins with this: it begins the timeline, if it is new."""
        await fetch_on(connection, "enter_timeline", {})

    async def open(self) -> None:
        """Detect a pooler in front of the server, and open the pool."""
        self.through_pooler = await self._finds_pooler()
        await self.open_pool()

    async def open_pool(self) -> None:
        """Open the pool without waiting for a connection."""
        self._pool = new_pool(self, self._name, WatchedConnection, self._connections, 30)
        await self._pool.open()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    def connect_arguments(self, options: str | None = None) -> dict[str, Any]:
        """The arguments of every connection. A pooler forwards neither options nor prepared
        statements."""
        common: dict[str, Any] = {
            "autocommit": True,
            "application_name": self.application_name,
            **connect_to_writable(self.url),
            **KEEPALIVE,
        }
        if self.through_pooler:
            return {**common, "prepare_threshold": None}
        given = conninfo_to_dict(self.url).get("options") or ""
        both = f"{given} {options or self._options}".strip()
        return {**common, "prepare_threshold": 0, "options": both}

    async def _finds_pooler(self) -> bool:
        try:
            async with await AsyncConnection.connect(
                self.url, autocommit=True, **connect_to_writable(self.url)
            ) as connection:
                connection.prepare_threshold = None
                row = await (await connection.execute(query("backend_pid"))).fetchone()
                return row is None or row[0] != connection.info.backend_pid
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(
                f"cannot reach PostgreSQL at {self.safe_url}: {why_unreachable(error)}"
            ) from error

    def check_timeline(self) -> None:
        """Raise `TimelineOver` when nothing more may be done on behalf of this registration."""

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

    async def fetch_unless_locked(
        self, name: str, params: Mapping[str, Any], *, give_up_at: Callable[[], float]
    ) -> list[tuple[Any, ...]]:
        """As `fetch`; raises `RowLocked` when the statement's lock timeout is over."""

        async def attempt() -> list[tuple[Any, ...]]:
            try:
                return await self._fetch_once(name, params)
            except errors.LockNotAvailable as error:
                raise RowLocked(f"{name}: {_first_line(error)}") from error

        return await self.retry_while_away(attempt, give_up_at)

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
        pause_seconds, cancels_left = 0.05, MAX_CANCELS
        while True:
            try:
                return await attempt()
            except errors.QueryCanceled as error:
                cancels_left -= 1
                if not cancels_left:
                    raise _timed_out(error) from error
            except psycopg.Error as error:
                lost = is_lost(error)
                if not lost and not isinstance(error, TIES):
                    raise
                if time.monotonic() + pause_seconds > (give_up_at() if give_up_at else deadline):
                    if isinstance(error, errors.LockNotAvailable):
                        raise RowLocked(_first_line(error)) from error
                    if not lost:
                        raise
                    raise DatabaseUnavailable(
                        f"PostgreSQL at {self.safe_url} is away: {why_unreachable(error)}"
                    ) from error
                if lost:
                    self.losses += 1
                    await asyncio.to_thread(self.revive_now)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 1.0)

    async def _fetch_once(self, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        async with self.connection() as connection:
            return await fetch_on(connection, name, params)

    async def _fetch_dicts_once(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        async with self.connection() as connection, connection.transaction():
            # The filters differ from call to call: one plan for all of them would be slow for each.
            await connection.execute(query("plan_for_these_values"))
            return await fetch_dicts_on(connection, name, params)

    def revive_now(self) -> None:
        """Restart an embedded server that died. An error is suppressed: it would hide the one being
        handled."""
        if self.revive_with is not None:
            with contextlib.suppress(Exception):
                self.revive_with()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection of the pool; each statement is a transaction."""
        refuse("a connection to the database")
        assert self._pool is not None, "the database is not open"
        async with self._pool.connection() as connection:
            try:
                yield connection
            except errors.ReadOnlySqlTransaction as error:
                await leave_read_only(connection, error)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """One transaction on a connection of the pool."""
        async with contextlib.AsyncExitStack() as stack:
            yield await self.retry_while_away(lambda: self._begin(stack), None)

    async def in_transaction(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Run `work` in one transaction, again if PostgreSQL aborts it for a deadlock or a
        conflict."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                async with self.transaction() as connection:
                    return await work(connection)
            except TIES:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(TIE_SECONDS)

    async def _begin(self, stack: contextlib.AsyncExitStack) -> AsyncConnection[Any]:
        # BEGIN may be retried on another connection: nothing was written before it.
        async with contextlib.AsyncExitStack() as begun:
            connection = await begun.enter_async_context(self.connection())
            await begun.enter_async_context(connection.transaction())
            stack.push_async_exit(begun.pop_all())
        return connection


class ClientDatabase(Database):
    """The database of everything that programs, the API and pipelines call. A call inside a
    pipeline's transaction has a pool of its own, in which there is a connection for each."""

    def __init__(self, url: str, *, pools: PoolSizes | None = None) -> None:
        self._sizes = pools or PoolSizes()
        super().__init__(url, connections=self._sizes.client)
        self._beside: AsyncConnectionPool[WatchedConnection] | None = None

    async def open_pool(self) -> None:
        await super().open_pool()
        self._beside = new_pool(self, "beside", WatchedConnection, self._sizes.tasks, 30)
        await self._beside.open()

    async def resize(self, sizes: PoolSizes) -> None:
        """Resize the pools for a runner that starts in this process."""
        self._sizes = sizes
        for pool, most in ((self._pool, sizes.client), (self._beside, sizes.tasks)):
            if pool is not None:
                await pool.resize(0, most)

    async def close(self) -> None:
        await super().close()
        if self._beside is not None:
            await self._beside.close()

    def for_runner(
        self, lease_seconds: float, on_other_timeline: Callable[[], None]
    ) -> tuple[RunnerDatabase, TaskConnections]:
        """The pools of a runner on the same server, not open yet. Their connections have a name of
        their own, by which another runner finds them when this one is lost."""
        own = RunnerDatabase(self.url, on_other_timeline, self._sizes.runner)
        own.application_name = f"regente runner {secrets.token_hex(6)}"
        own.revive_with = self.revive_with
        own.through_pooler = self.through_pooler
        return own, TaskConnections(own, self._sizes.tasks, IDLE_LEASES * lease_seconds)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        current = current_connection()
        if current is None:
            async with super().connection() as connection:
                with using_connection("call"):
                    yield connection
        elif current.by == "transaction":
            async with self._beside_transaction(current) as connection:
                yield connection
        else:
            raise RuntimeError(
                "this code holds a connection of the client already: pass it on as connection="
            )

    @contextlib.asynccontextmanager
    async def _beside_transaction(
        self, current: CurrentConnection
    ) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection for a call inside a pipeline's transaction. It may wait for a lock of that
        very transaction, which PostgreSQL cannot see: so it waits for a limited time."""
        assert self._beside is not None, "the database is not open"
        async with current.turn, self._beside.connection() as connection:
            try:
                with using_connection("call"):
                    async with connection.transaction():
                        limit = f"{int(BESIDE_LOCK_SECONDS * 1000)}ms"
                        await connection.execute(query("limit_lock_wait"), {"limit": limit})
                        yield connection
            except errors.LockNotAvailable as error:
                raise Transient(
                    f"a call inside task.transaction waited {BESIDE_LOCK_SECONDS:g} s for a lock; "
                    "if that transaction holds it, make the call before or after it, or pass its "
                    "connection on as connection=",
                    code="CALL_IN_TRANSACTION",
                ) from error
            except errors.ReadOnlySqlTransaction as error:
                await leave_read_only(connection, error)


class RunnerDatabase(Database):
    """The database of one registration of a runner, which lasts no longer than a timeline: after a
    failover what it holds and knows may not be there, and its fences could be given out again."""

    def __init__(
        self, url: str, on_other_timeline: Callable[[], None], connections: int = SHARE
    ) -> None:
        super().__init__(url, name="runner", options=RUNNER_OPTIONS, connections=connections)
        self.timeline = ""
        self._is_over = False
        self._on_other_timeline = on_other_timeline

    async def enter(self, connection: AsyncConnection[Any]) -> None:
        [(timeline,)] = await fetch_on(connection, "enter_timeline", {})
        self.timeline = self.timeline or timeline
        if timeline != self.timeline and not self._is_over:
            self._is_over = True
            self._on_other_timeline()

    async def reopen(self) -> None:
        """Open the pools again for the next registration, in the timeline that it finds."""
        await self.close()
        self.timeline, self._is_over = "", False
        await self.open_pool()

    def check_timeline(self) -> None:
        if self._is_over:
            raise TimelineOver("the database failed over or was restored: the runner begins again")

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        async with super().connection() as connection:
            self.check_timeline()
            yield connection


class TaskConnections:
    """The connections of pipelines' transactions."""

    def __init__(self, database: Database, most: int, idle_seconds: float = 0.0) -> None:
        self._database = database
        self._options = f"{TASK_OPTIONS}{int(idle_seconds * 1000)}ms"
        self._most = most
        self._pool: AsyncConnectionPool[TaskConnection] | None = None

    async def open(self) -> None:
        database, check = self._database, self._check_alive
        self._pool = new_pool(
            database, "tasks", TaskConnection, self._most, 60, self._options, check
        )
        await self._pool.open()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[TaskConnection]:
        """A connection for one transaction. A second one inside it is refused: when all wait for a
        second one, none gets it."""
        assert self._pool is not None, "the connections of transactions are not open"
        if in_task_transaction():
            raise Fatal(
                "a task.transaction inside another one: use the connection of the outer one",
                code="NESTED_TRANSACTION",
            )
        async with self._pool.connection() as connection:
            self._database.check_timeline()
            try:
                with using_connection("transaction"):
                    yield connection
            except errors.ReadOnlySqlTransaction as error:
                await leave_read_only(connection, error)

    async def _check_alive(self, connection: AsyncConnection[Any]) -> None:
        """Check a pooled connection, which must not cost an attempt when it is dead, with a round
        trip only when the server has sent something. When one is dead the others are checked too:
        the pool waits longer after each that fails."""
        if has_no_input(connection):
            return
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.Error:
            assert self._pool is not None
            await self._pool.check()
            raise


def new_pool(
    database: Database,
    name: str,
    connection_class: type[Connection],
    most: int,
    wait_seconds: float,
    options: str | None = None,
    check: Callable[[Connection], Awaitable[None]] | None = None,
) -> AsyncConnectionPool[Connection]:
    """A pool that connects when it has to."""
    return AsyncConnectionPool(
        database.url,
        connection_class=connection_class,
        kwargs=database.connect_arguments(options),
        min_size=0,
        max_size=most,
        max_idle=IDLE_SECONDS,
        timeout=wait_seconds,
        check=check,
        configure=database.enter,
        reconnect_timeout=RECONNECT_SECONDS,
        reconnect_failed=_reconnect,
        open=False,
        name=f"regente-{name}",
    )


class ReadsRows(Protocol):
    async def fetch_dicts(self, name: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of one of the engine's named queries."""
        ...


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
            self._connection = await WatchedConnection.connect(self._database.url, **arguments)
            await self._database.enter(self._connection)
        self._database.check_timeline()
        try:
            return await fetch_on(self._connection, name, params)
        except errors.ReadOnlySqlTransaction as error:
            connection, self._connection = self._connection, None
            await connection.close()
            raise ServerReadOnly(f"the server is read-only: {error}") from error
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


async def fetch_dicts_on(
    connection: AsyncConnection[Any], name: str, params: Mapping[str, Any]
) -> list[Row]:
    """As `fetch_on`, planned for these values, with each row as a dict."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        return await (await cursor.execute(query(name), params, prepare=False)).fetchall()


async def execute_on(connection: Any, name: str, params: Mapping[str, Any]) -> None:
    """Run a named statement for its effect."""
    try:
        await connection.execute(query(name), params)
    except psycopg.Error as error:
        raise translated(error) from error


async def _reconnect(pool: AsyncConnectionPool[Any]) -> None:
    """Let the pool continue to try. By itself it doubles its wait until `reconnect_timeout`, and
    then leaves callers waiting."""
    await pool.check()


def has_no_input(connection: AsyncConnection[Any]) -> bool:
    """True when no unread bytes wait; a server that closes a connection leaves its error there."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)


def _has_dollars(query: Any) -> bool:
    return isinstance(query, str) and "$1" in query and "%" not in query


def is_lost(error: BaseException) -> bool:
    """True when the server went away, shut down or ran out of resources: a retry may pass."""
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return True  # this process was frozen during a transaction
    if isinstance(error, errors.QueryCanceled):
        return False  # by `statement_timeout`, or by an operator
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] in ("08", "53", "57", "58")


# Raised by functions in the database.
_OWN_ERRORS: dict[str, type[RegenteError]] = {
    "RG001": IllegalTransition,
    "RG002": InvalidInput,
    "RG003": NotFound,
}


def _timed_out(error: psycopg.Error) -> StatementTimeout:
    return StatementTimeout(
        f"PostgreSQL ended a statement {MAX_CANCELS} times: {_first_line(error)}. If it is the "
        "statement_timeout of the server, the database or the role, lift it for Regente: "
        "ALTER ROLE … SET statement_timeout = 0"
    )


def translated(error: psycopg.Error) -> Exception:
    """The error of ours for a SQLSTATE, or the same error."""
    if error.sqlstate == "RG004":
        return AlreadyEnqueued(_first_line(error), int(error.diag.message_detail or 0) or None)
    if error.sqlstate in _OWN_ERRORS:
        return _OWN_ERRORS[error.sqlstate](_first_line(error))
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
