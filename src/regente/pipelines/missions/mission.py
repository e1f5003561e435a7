"""The mission's task: `atribuido` → `extracao` → `armazenamento` → `finalizado`.

The checkpoint is in the mission's own row and written with every change. An attempt that takes the
mission over continues there, and asks the worker or the writer for the job before it sends one
again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from psycopg import InterfaceError, OperationalError

from regente.engine.errors import DatabaseUnavailable, Held, StatementTimeout, TaskError
from regente.engine.log import logger
from regente.engine.task import Task
from regente.fleet.registry import Fleet
from regente.fleet.secrets import SecretsUnreadable
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.phase import MissionPhase, MissionRun
from regente.pipelines.missions.scrape import ScrapePhase
from regente.pipelines.missions.storage import StoragePhase
from regente.pipelines.missions.worker_watch import WorkerWatch

EXPECTED = (
    TaskError,
    DatabaseUnavailable,
    StatementTimeout,
    OperationalError,
    InterfaceError,
    SecretsUnreadable,
)
"""Failures that the phases have judged, and those of the database or of a missing key, which cost a
mission nothing."""


@dataclass(frozen=True, slots=True)
class MissionPipeline:
    fleet: Fleet
    worker_watch: WorkerWatch

    async def mission(self, task: Task[MissionArgs]) -> dict[str, Any]:
        """The pipeline `missions`."""
        task.context["mission"] = task.id
        try:
            return await self._conduct(task)
        except EXPECTED:
            raise
        except Exception as error:
            logger.exception("a mission met an error of Regente itself")
            run = await MissionRun.of(self.fleet, task)
            raise await MissionPhase(self.fleet, task, run).internal_error(error) from error

    async def _conduct(self, task: Task[MissionArgs]) -> dict[str, Any]:
        run = await MissionRun.of(self.fleet, task)
        if run.checkpoint in (None, "atribuido", "extracao"):
            # A retry clears `scrape_sent`: without a worker it means that the mission has failed.
            if not run.has_worker and run.scrape_sent:
                raise await MissionPhase(self.fleet, task, run).recorded_failure()
            if not run.has_worker:
                raise Held("it waits for a worker")
            run = await self._extract(task, run)
        if run.checkpoint == "armazenamento":
            run = await StoragePhase(self.fleet, task, run).store()
        return _outcome(run)

    async def _extract(self, task: Task[MissionArgs], run: MissionRun) -> MissionRun:
        scrape = ScrapePhase(self.fleet, task, run, await self.fleet.worker(run.worker))
        try:
            return await scrape.extract()
        except asyncio.CancelledError:
            if task.stopping == "cancel":
                await scrape.cancel()
            raise
        finally:
            self.worker_watch.changed(run.worker)


def _outcome(run: MissionRun) -> dict[str, Any]:
    """The details of `mission_completed`: ads found, stored and failed, and the difference if there
    is one."""
    found, stored, failed = run.ads_count or 0, run.success_count or 0, run.failed_count or 0
    outcome: dict[str, Any] = {
        "total_duration_ms": run.total_duration_ms,
        "ads_count": found,
        "success_count": stored,
        "failed_count": failed,
    }
    if found != stored + failed:
        outcome["residual"] = found - stored - failed
        logger.warning("ads found and ads accounted for differ", extra=outcome)
    return outcome
