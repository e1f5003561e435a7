"""Every log line of the engine, in one place, as structured fields on the logger `regente`.

`task_fields` tells any log processor which task the current code belongs to: runner, task, pipeline, attempt, and whatever
the pipeline put into `task.context` (a match id, say).
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regente.engine.ledger import Claim
    from regente.engine.outcome import Failure
    from regente.engine.task import Task

logger = logging.getLogger("regente")
current_task: ContextVar[Task[Any] | None] = ContextVar("regente_task", default=None)
current_runner: ContextVar[str | None] = ContextVar("regente_runner", default=None)


def task_fields() -> dict[str, Any]:
    task = current_task.get()
    runner = current_runner.get()
    fields: dict[str, Any] = {"runner": runner} if runner else {}
    if task is not None:
        fields |= {"task": task.id, "pipeline": task.pipeline, "attempt": task.attempt, **task.context}
    return fields


def task_ended(task: Task[Any], status: str, duration_seconds: float, failure: Failure | None = None) -> None:
    level = logging.WARNING if failure is not None else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        "task": task.id,
        "pipeline": task.pipeline,
        "attempt": task.attempt,
        "status": status,
        "duration_ms": round(duration_seconds * 1000, 1),
        "task_context": task.context,  # in one piece: logging refuses some names as fields of their own
    }
    if failure is not None:
        fields |= {"code": failure.code, "error": failure.message}
    logger.log(level, "task %s", status, extra=fields)


def task_stalled(claim: Claim, reason: str, stack: str) -> None:
    fields = {"task": claim.id, "pipeline": claim.pipeline, "attempt": claim.attempt, "reason": reason, "stack": stack}
    logger.warning("task shows no progress", extra=fields)


def write_refused(claim: Claim) -> None:
    fields = {"task": claim.id, "pipeline": claim.pipeline, "attempt": claim.attempt}
    logger.info("write refused by the fence: the task is no longer ours", extra=fields)


def runner_started(runner_id: int, name: str, pipelines: list[str], concurrency: int) -> None:
    fields = {"runner_id": runner_id, "runner": name, "pipelines": pipelines, "concurrency": concurrency}
    logger.info("runner started", extra=fields)


def runner_stopped(runner_id: int, name: str, report: str) -> None:
    logger.info("runner stopped: %s", report, extra={"runner_id": runner_id, "runner": name})


def lease_lost(runner_id: int, reason: str) -> None:
    logger.error("lease lost: every task of this runner is given up", extra={"runner_id": runner_id, "reason": reason})


def database_away(what: str, error: BaseException) -> None:
    logger.warning("the database is away", extra={"during": what, "error": str(error).strip()})


def sweep(name: str, result: object) -> None:
    logger.info("watchdog: %s", name, extra={"result": str(result)})


def sweep_failed(name: str, error: BaseException) -> None:
    logger.warning("watchdog: %s failed", name, extra={"error": str(error).strip()})
