"""The sessions of one worker: reserve a proxy, open, wait until ready, fail, end. Each change of
state is one transaction."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from regente.contracts.worker import Cause, Problem, SessionStatus
from regente.engine.crashpoints import crash_point
from regente.engine.errors import LeaseLost
from regente.engine.task import Task
from regente.fleet.clients import end_session_best_effort, with_retries
from regente.fleet.models import Worker
from regente.fleet.registry import Fleet
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.missions.failures import (
    BROKEN_SESSION,
    ErrorCode,
    blames_proxy,
    deactivate_worker,
    judge_session,
)
from regente.pipelines.missions.queries import QUERIES, brief_transaction

STARTING = (
    SessionStatus.INITIALIZING,
    SessionStatus.CONNECTING,
    SessionStatus.AUTHENTICATING,
    SessionStatus.WARMING_UP,
)


@dataclass(frozen=True, slots=True)
class OpenSession:
    id: int
    proxy_id: str | None
    proxy_name: str | None


class SessionFailed(Exception):
    """The session did not start, or broke while no mission was on it."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        problem: Problem | None = None,
        *,
        rest_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.rest_seconds = rest_seconds  # the worker's Retry-After
        self.code = code
        self.message = message
        self.problem = problem

    @property
    def may_be_the_proxys(self) -> bool:
        """False for a rate limit, which is the fault of none."""
        throttled = self.problem is not None and self.problem.cause is Cause.THROTTLED
        return self.rest_seconds is None and not throttled


class Sessions:
    """The sessions of one worker, on behalf of its driver's task."""

    def __init__(self, fleet: Fleet, task: Task[Any], worker: Worker) -> None:
        self._fleet = fleet
        self._task = task
        self._worker = worker
        self._client = fleet.worker_client(worker)

    async def current(self) -> OpenSession | None:
        rows = await QUERIES.fetch_all(
            self._fleet.database, "session_of_worker", worker_id=self._worker.id
        )
        return (
            OpenSession(rows[0]["id"], rows[0]["proxy_id"], rows[0]["proxy_name"]) if rows else None
        )

    async def reserve(self) -> OpenSession | None:
        """Reserve a proxy and record the session before the worker is asked for it. None when no
        proxy is free."""
        async with brief_transaction(self._task) as connection:
            proxy = await QUERIES.fetch_one(connection, "reserve_proxy", worker_id=self._worker.id)
            if proxy is None:
                return None
            before = await QUERIES.fetch_one(connection, "last_session", worker_id=self._worker.id)
            begun = await QUERIES.fetch_one(
                connection,
                "begin_session",
                worker_id=self._worker.id,
                proxy_id=proxy["id"],
                proxy_name=proxy["name"],
                driver_id=self._task.id,
            )
            if begun is None:
                raise LeaseLost(f"worker {self._worker.name} has another driver")
            session = OpenSession(begun["id"], proxy["id"], proxy["name"])
            await self._log(
                connection,
                "session_started",
                session,
                proxy_id=proxy["id"],
                proxy_name=proxy["name"],
            )
            if (
                before is not None
                and before["proxy_name"]
                and before["proxy_name"] != proxy["name"]
            ):
                await self._log(
                    connection,
                    "proxy_rotated",
                    session,
                    old_proxy=before["proxy_name"],
                    new_proxy=proxy["name"],
                    reason=before["reason"],
                    proxy_name=before["proxy_name"],
                )
        crash_point("session.reserved")
        return session

    async def open(self, session: OpenSession) -> None:
        proxy = await self._fleet.proxy(session.proxy_id) if session.proxy_id else None
        self._task.check_lease()
        try:
            await self._client.open_session(proxy)
        except CallFailed as error:
            raise _start_failed(error) from None
        crash_point("session.asked")

    async def until_ready(self, session: OpenSession) -> None:
        """Poll the worker every 10 s until the session is ready; fail 180 s after its begin."""
        rows = await QUERIES.fetch_all(
            self._fleet.database, "current_session", session_id=session.id
        )
        deadline = (
            time.monotonic()
            + self._fleet.config.timeout_session_seconds
            - (rows[0]["age_seconds"] if rows else 0.0)
        )
        while True:
            status = await self.status()
            if status is SessionStatus.READY:
                return await self._ready(session)
            if status not in STARTING:
                raise SessionFailed(
                    ErrorCode.SESSION, f"the session says {status} before it was ready"
                )
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                limit = self._fleet.config.timeout_session_seconds
                raise SessionFailed(
                    ErrorCode.SESSION_TIMEOUT,
                    f"the session was not ready after {limit:g} s, but {status}",
                )
            await self._task.heartbeat()
            await asyncio.sleep(min(self._fleet.config.polling_session_seconds, left_seconds))

    async def status(self) -> SessionStatus:
        """The session's status, from the worker. Raises `SessionFailed` when it is broken."""
        try:
            session = await with_retries(
                self._task, self._client.session, self._fleet.config.outage_seconds
            )
        except CallFailed as error:
            raise _start_failed(error) from None
        if (code := BROKEN_SESSION.get(session.status)) is not None:
            reason = f": {session.problem.message}" if session.problem else ""
            raise SessionFailed(code, f"the session is {session.status}{reason}", session.problem)
        return session.status

    async def _ready(self, session: OpenSession) -> None:
        async with brief_transaction(self._task) as connection:
            row = await QUERIES.fetch_one(
                connection,
                "session_ready",
                worker_id=self._worker.id,
                session_id=session.id,
                driver_id=self._task.id,
            )
            if row is None:
                raise LeaseLost(f"worker {self._worker.name} has another driver")
            await self._log(connection, "session_ready", session, duration_ms=row["duration_ms"])
            if await QUERIES.fetch_all(connection, "close_breaker"):
                await self._task.event(
                    "proxy_breaker_closed", connection=connection, worker_id=self._worker.id
                )
        crash_point("session.ready")

    async def fail(self, session: OpenSession, failure: SessionFailed, *, starting: bool) -> None:
        """Set the worker to `error`, free the proxy, and blame the proxy if the failure is its
        fault."""
        config = self._fleet.config
        await end_session_best_effort(self._task, self._client, config.outage_seconds)
        async with brief_transaction(self._task) as connection:
            await QUERIES.execute(
                connection,
                "session_failed",
                worker_id=self._worker.id,
                driver_id=self._task.id,
                session_id=session.id,
                code=failure.code.value,
                message=failure.message,
                backoff_seconds=config.error_backoff_seconds,
                limit_seconds=config.error_backoff_limit_seconds,
                rest_seconds=failure.rest_seconds,
            )
            blamed = await self._judged(connection, session, failure, starting=starting)
            await self._log(
                connection,
                "session_failed",
                session,
                error_code=failure.code.value,
                proxy_name=session.proxy_name,
                error_message=failure.message,
                blamed="proxy" if blamed else _blamed(failure),
            )
        crash_point("session.failed")

    async def _judged(
        self, connection: Any, session: OpenSession, failure: SessionFailed, *, starting: bool
    ) -> bool:
        own_fault = blames_proxy(failure.code, failure.problem, starting=starting)
        if session.proxy_id is None or not (own_fault or (starting and failure.may_be_the_proxys)):
            return False
        return await judge_session(
            self._task,
            connection,
            self._fleet.config,
            session.id,
            session.proxy_id,
            failure.code.value,
            own_fault=own_fault,
        )

    async def reset(self) -> None:
        """`error` → `idle`."""
        async with brief_transaction(self._task) as connection:
            await QUERIES.execute(
                connection,
                "end_session",
                worker_id=self._worker.id,
                driver_id=self._task.id,
                reason=None,
            )

    async def end(self, reason: str) -> None:
        """`DELETE /session`, best effort; then free the proxy and set the worker to `idle`."""
        session = await self.current()
        await end_session_best_effort(self._task, self._client, self._fleet.config.outage_seconds)
        crash_point("session.deleted")
        async with brief_transaction(self._task) as connection:
            await QUERIES.execute(
                connection,
                "end_session",
                worker_id=self._worker.id,
                driver_id=self._task.id,
                reason=reason,
            )
            if session is not None:
                await self._log(
                    connection,
                    "session_terminated",
                    session,
                    reason=reason,
                    proxy_name=session.proxy_name,
                )
        crash_point("session.ended")

    async def deactivate_worker(self, failure: SessionFailed) -> None:
        async with brief_transaction(self._task) as connection:
            await deactivate_worker(
                self._task, connection, self._worker.id, failure.code.value, failure.message
            )

    async def _log(self, connection: Any, event: str, session: OpenSession, **details: Any) -> None:
        await self._task.event(
            event,
            connection=connection,
            worker_id=self._worker.id,
            session_id=session.id,
            **details,
        )


class Unauthorized(SessionFailed):
    """The worker refuses our API key."""

    may_be_the_proxys = False


def _start_failed(error: CallFailed) -> SessionFailed:
    """A failed call is the worker's fault, not the proxy's."""
    if error.failure is CallFailure.UNAUTHORIZED:
        return Unauthorized(ErrorCode.WORKER_UNAVAILABLE, error.message)
    if error.failure is CallFailure.THROTTLED:
        return SessionFailed(
            ErrorCode.WORKER_UNAVAILABLE, error.message, rest_seconds=error.retry_after
        )
    known = error.failure in (CallFailure.PROTOCOL, CallFailure.INVALID, CallFailure.MISSING)
    return SessionFailed(
        ErrorCode.SESSION if known else ErrorCode.WORKER_UNAVAILABLE, error.message
    )


def _blamed(failure: SessionFailed) -> str:
    if failure.problem is not None:
        return failure.problem.cause.value
    return "worker" if failure.code is ErrorCode.WORKER_UNAVAILABLE else "session"
