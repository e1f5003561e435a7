"""A session: its start through the proxy, and its status. A broken session stays broken."""

from __future__ import annotations

import asyncio
import contextlib

from regente.contracts.worker import Cause, Problem, ProxyAddress, SessionStatus
from regente.services.worker.errors import logger
from regente.services.worker.settings import WorkerSettings
from regente.services.worker.source import Source, SourceFailed, SourceSession

STARTING = frozenset(
    {
        SessionStatus.INITIALIZING,
        SessionStatus.CONNECTING,
        SessionStatus.AUTHENTICATING,
        SessionStatus.WARMING_UP,
    }
)
USABLE = STARTING | {SessionStatus.READY, SessionStatus.SCRAPING}


class WorkerSession:
    def __init__(
        self, source: Source, proxy: ProxyAddress | None, settings: WorkerSettings
    ) -> None:
        self.status = SessionStatus.INITIALIZING
        self.problem: Problem | None = None
        self._source = source
        self._proxy = proxy
        self._settings = settings
        self._visit: SourceSession | None = None
        self._starting = asyncio.create_task(self._start(), name="worker session start")

    @property
    def visit(self) -> SourceSession:
        assert self._visit is not None, "a session that is ready has a visit"
        return self._visit

    @property
    def usable(self) -> bool:
        return self.status in USABLE

    async def end(self) -> None:
        """End the session, even while it starts."""
        self.status = SessionStatus.TERMINATED
        self._starting.cancel()
        await asyncio.gather(self._starting, return_exceptions=True)
        if self._visit is not None:
            with contextlib.suppress(Exception):
                await self._visit.close()

    def mark_disconnected(self, problem: Problem) -> None:
        """Mark the session as disconnected: the proxy or the target no longer serves it."""
        self._break(SessionStatus.DISCONNECTED, problem)

    def mark_stuck(self, message: str) -> None:
        self._break(SessionStatus.STUCK, Problem(cause=Cause.TARGET, message=message))

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self._settings.stuck_seconds):
                await self._run_phases()
        except SourceFailed as failed:
            if failed.timed_out:
                self.mark_stuck(str(failed))
            else:
                self.mark_disconnected(failed.problem)
        except TimeoutError:
            self.mark_stuck(
                f"the session stayed at {self.status} for {self._settings.stuck_seconds:g} s"
            )
        except Exception as error:
            logger.exception("the session could not start")
            self.mark_disconnected(
                Problem(cause=Cause.WORKER, message=f"the worker failed: {type(error).__name__}")
            )

    async def _run_phases(self) -> None:
        await self._pause()
        self._visit = self._source.open(self._proxy)
        self.status = SessionStatus.CONNECTING
        await self._pause()
        await self._visit.connect()
        self.status = SessionStatus.AUTHENTICATING
        await self._pause()
        await self._visit.authenticate()
        self.status = SessionStatus.WARMING_UP
        await self._pause()
        await self._visit.warm_up()
        self.status = SessionStatus.READY

    async def _pause(self) -> None:
        await asyncio.sleep(self._settings.phase_seconds)

    def _break(self, status: SessionStatus, problem: Problem) -> None:
        if self.status is SessionStatus.TERMINATED:
            return
        logger.warning("the session is %s (%s): %s", status, problem.cause, problem.message)
        self.status, self.problem = status, problem
