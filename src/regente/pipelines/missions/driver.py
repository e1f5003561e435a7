"""The driver: one task per worker. It opens session after session and assigns mission after
mission to its worker, as long as the orchestrator is open.

The driver writes on the worker's row while no mission holds the worker. An assigned mission is run
by the mission's own task (`mission.py`), which then writes on the row.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from regente.contracts.worker import SessionStatus
from regente.engine.client import Client
from regente.engine.crashpoints import crash_point
from regente.engine.errors import LeaseLost, NotFound
from regente.engine.task import Task
from regente.fleet.registry import Fleet
from regente.http_client.client import CallFailed
from regente.pipelines.missions.failures import ErrorCode
from regente.pipelines.missions.queries import QUERIES, brief_transaction, log_for_mission
from regente.pipelines.missions.sessions import (
    STARTING,
    OpenSession,
    SessionFailed,
    Sessions,
    Unauthorized,
)
from regente.pipelines.missions.worker_watch import WorkerState, WorkerWatch


class DriverArgs(BaseModel):
    worker_id: str


class Assignment(Enum):
    DONE = "a mission was assigned"
    NONE = "no mission waits"
    OTHER_PROXY = "the next mission avoids this session's proxy, and another one is free"


@dataclass(frozen=True, slots=True)
class Driver:
    """The pipeline `workers`; one object serves all drivers of a process."""

    client: Client
    fleet: Fleet
    worker_watch: WorkerWatch

    async def drive(self, task: Task[DriverArgs]) -> None:
        """The pipeline `workers`."""
        worker_id = task.args.worker_id
        task.context["worker"] = worker_id
        try:
            await self._resume(task, worker_id)
            while await self._wanted(worker_id):
                await self._run_session(task, worker_id)
        except asyncio.CancelledError:
            if task.stopping in ("drain", "cancel"):
                await self._leave(task, worker_id)
            raise
        except NotFound:
            return  # the worker was removed

    async def _wanted(self, worker_id: str) -> bool:
        state = await self.worker_watch.state(worker_id)
        return state is not None and state.active and state.open

    async def _sessions(self, task: Task[Any], worker_id: str) -> Sessions:
        return Sessions(self.fleet, task, await self.fleet.worker(worker_id))

    # One session, from the reserved proxy to the end.

    async def _run_session(self, task: Task[Any], worker_id: str) -> None:
        sessions = await self._sessions(task, worker_id)
        session = await self._reserved(task, sessions, worker_id)
        if session is None:
            return
        try:
            await sessions.open(session)
            await sessions.until_ready(session)
        except SessionFailed as failure:
            await self._failed(task, sessions, session, failure, starting=True)
            return
        await self._serve(task, sessions, session, worker_id)

    async def _reserved(
        self, task: Task[Any], sessions: Sessions, worker_id: str
    ) -> OpenSession | None:
        """A session with a reserved proxy. Without a free one wait, and log that once."""
        logged = False
        while await self._wanted(worker_id):
            if not await self._may_try():
                await self._pause(task, worker_id, self.fleet.config.polling_session_seconds)
                continue
            session = await sessions.reserve()
            if session is not None:
                return session
            if not logged:
                logged = True
                async with brief_transaction(task) as connection:
                    await task.event(
                        "session_failed",
                        connection=connection,
                        worker_id=worker_id,
                        error_code=ErrorCode.NO_PROXY.value,
                        proxy_name=None,
                        error_message="no proxy is free; waiting for one",
                    )
            await self._pause(task, worker_id, self.fleet.config.polling_session_seconds)
        return None

    async def _may_try(self) -> bool:
        """False while the breaker is open (most proxies fail), except for one probe at a time."""
        rows = await QUERIES.fetch_all(
            self.fleet.database,
            "take_probe",
            every_seconds=self.fleet.config.polling_session_seconds,
        )
        return bool(next(iter(rows[0].values())))

    async def _failed(
        self,
        task: Task[Any],
        sessions: Sessions,
        session: OpenSession,
        failure: SessionFailed,
        *,
        starting: bool,
    ) -> None:
        """Record the failure, wait longer after each failure in a row, then reset to `idle`."""
        worker_id = task.args.worker_id
        await sessions.fail(session, failure, starting=starting)
        if isinstance(failure, Unauthorized):
            await sessions.deactivate_worker(failure)
        else:
            await self._rest(task, worker_id)
        await sessions.reset()

    async def _rest(self, task: Task[Any], worker_id: str) -> None:
        state = await self.worker_watch.state(worker_id)
        while state is not None and state.rest_seconds > 0 and state.active and state.open:
            await self._pause(
                task, worker_id, min(state.rest_seconds, self.fleet.config.polling_session_seconds)
            )
            state = await self.worker_watch.state(worker_id)

    # The missions of a session.

    async def _serve(
        self, task: Task[Any], sessions: Sessions, session: OpenSession, worker_id: str
    ) -> None:
        while True:
            state = await self._released(task, worker_id)
            if state is None:
                return None
            if state.status != "ready":
                return await sessions.end(await self._reason(worker_id))
            if (reason := _end_reason(state)) is not None:
                return await sessions.end(reason)
            if state.rest_seconds > 0:
                await self._rest(task, worker_id)
                continue
            match await self._assign(task, session, worker_id):
                case Assignment.OTHER_PROXY:
                    return await sessions.end("proxy_avoided")
                case Assignment.NONE:
                    await self.worker_watch.wait(
                        worker_id, self.fleet.config.polling_session_seconds, for_work=True
                    )
                    await task.heartbeat()
                    try:
                        await self._check(sessions)
                    except SessionFailed as failure:
                        return await self._failed(task, sessions, session, failure, starting=False)
                case Assignment.DONE:
                    pass

    async def _check(self, sessions: Sessions) -> None:
        """A session without a mission must be ready. Another status, `scraping` too, is a failure
        of the session."""
        status = await sessions.status()
        if status is not SessionStatus.READY:
            raise SessionFailed(
                ErrorCode.SESSION, f"the session is {status}, and no mission is on it"
            )

    async def _assign(self, task: Task[Any], session: OpenSession, worker_id: str) -> Assignment:
        """Assign the mission that has waited longest (6.4) to this worker, in one transaction with
        its events, and release its task."""
        async with brief_transaction(task) as connection:
            mission = await QUERIES.fetch_one(
                connection,
                "next_mission",
                proxy_id=session.proxy_id,
                worker_id=worker_id,
                avoid_seconds=self.fleet.config.timeout_session_seconds,
            )
            if mission is None:
                return Assignment.NONE
            if mission["change_proxy"]:
                return Assignment.OTHER_PROXY
            mission_id, attempt = mission["id"], mission["attempt"]
            pair = {"mission_id": mission_id, "worker_id": worker_id}
            if not await QUERIES.fetch_all(connection, "assign_worker", driver_id=task.id, **pair):
                raise LeaseLost(f"worker {worker_id} has another driver")
            await QUERIES.execute(
                connection,
                "assign_mission",
                session_id=session.id,
                proxy_name=session.proxy_name,
                **pair,
            )
            await QUERIES.execute(
                connection, "join_session", mission_id=mission_id, session_id=session.id
            )
            if mission["avoided"] and mission["avoided"] != session.proxy_name:
                await log_for_mission(
                    connection,
                    mission_id,
                    attempt,
                    "proxy_rotated",
                    old_proxy=mission["avoided"],
                    new_proxy=session.proxy_name,
                    reason=mission["error_code"],
                )
            await log_for_mission(
                connection,
                mission_id,
                attempt,
                "mission_assigned",
                worker_id=worker_id,
                worker_name=mission["worker_name"],
                proxy_name=session.proxy_name,
                session_id=session.id,
                mission_id=mission_id,
            )
            await self.client.release([mission_id], connection=connection)
        crash_point("mission.assigned")
        return Assignment.DONE

    async def _released(self, task: Task[Any], worker_id: str) -> WorkerState | None:
        """Wait until no mission holds the worker, and return its state."""
        while True:
            state = await self.worker_watch.state(worker_id)
            if state is None or state.mission_id is None:
                return state
            if state.orphaned:
                await self._reclaim(task, worker_id, state.mission_id)
                continue
            await self._pause(task, worker_id, self.fleet.config.polling_session_seconds)

    async def _reason(self, worker_id: str) -> str:
        rows = await QUERIES.fetch_all(self.fleet.database, "worker_error", worker_id=worker_id)
        return (rows[0]["error_code"] if rows else None) or "mission_failed"

    async def _pause(self, task: Task[Any], worker_id: str, seconds: float) -> None:
        await self.worker_watch.wait(worker_id, seconds)
        await task.heartbeat()

    # Takeover from another driver or mission, and drain.

    async def _resume(self, task: Task[Any], worker_id: str) -> None:
        """Continue with the worker as an earlier driver left it (5.6)."""
        state = await self._released(task, worker_id)
        if state is None:
            return
        sessions = await self._sessions(task, worker_id)
        session = await sessions.current()
        if state.status == "error" and session is not None:
            # A mission failed on the session, and the session was not ended yet.
            await sessions.end(await self._reason(worker_id))
        elif state.status == "error":
            await self._rest(task, worker_id)
            await sessions.reset()
        elif session is None or state.status == "idle":
            await sessions.reset()
        elif await self._is_usable(sessions, session, state):
            await self._serve(task, sessions, session, worker_id)

    async def _is_usable(
        self, sessions: Sessions, session: OpenSession, state: WorkerState
    ) -> bool:
        """Ask the worker whether the session of an earlier driver is ready; end it when not."""
        try:
            status = await sessions.status()
            if state.status == "initializing" and status in (*STARTING, SessionStatus.READY):
                await sessions.until_ready(session)
            elif status is not SessionStatus.READY:
                raise SessionFailed(
                    ErrorCode.SESSION, f"the session is {status}, and no mission is on it"
                )
        except SessionFailed as failure:
            # The earlier driver may not have asked for the session yet: no proxy is blamed.
            await sessions.end(f"recovered: {failure.message}"[:200])
            return False
        return True

    async def _reclaim(self, task: Task[Any], worker_id: str, mission_id: int) -> None:
        """Release the worker from a mission that ended without doing so (canceled, or failed by the
        engine): cancel its job; `error` then ends the session."""
        rows = await QUERIES.fetch_all(self.fleet.database, "mission", mission_id=mission_id)
        client = self.fleet.worker_client(await self.fleet.worker(worker_id))
        task.check_lease()
        if rows and rows[0]["worker_job_id"]:
            with contextlib.suppress(CallFailed):
                await client.cancel(rows[0]["worker_job_id"])
        async with brief_transaction(task) as connection:
            await QUERIES.execute(
                connection,
                "leave_worker",
                mission_id=mission_id,
                status="error",
                counted=0,
                code=None,
                message="its mission ended without it",
                rest_seconds=0,
            )

    async def _leave(self, task: Task[Any], worker_id: str) -> None:
        """The runner drains: end a session that has no mission. A busy worker stays with its
        mission, and another runner's driver continues."""
        state = await self.worker_watch.state(worker_id)
        if state is not None and state.mission_id is None and state.status != "idle":
            sessions = await self._sessions(task, worker_id)
            await sessions.end("orchestrator_stopped")


def _end_reason(state: WorkerState) -> str | None:
    """The reason to end the session now, if there is one."""
    if state.session_count >= state.session_limit:
        return "session_limit"
    if not state.active:
        return "deactivated"
    return None if state.open else "orchestrator_closed"
