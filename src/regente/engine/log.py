"""Every log line of the engine, in one place, as structured fields on the logger `regente`.

`task_fields` tells any log processor which task the current code belongs to: runner, task,
pipeline, attempt, and what the pipeline put into `task.context` (for example a match id).
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from regente.engine.writable import why_unreachable

if TYPE_CHECKING:
    from regente.engine.outcome import Failure
    from regente.engine.task import Task

logger = logging.getLogger("regente")
current_task: ContextVar[Task[Any] | None] = ContextVar("regente_task", default=None)
current_runner: ContextVar[str | None] = ContextVar("regente_runner", default=None)
current_request: ContextVar[str | None] = ContextVar("regente_request", default=None)
"""The id of the HTTP request being handled: in its log lines, and in the events of its changes."""


def task_fields() -> dict[str, Any]:
    task = current_task.get()
    runner = current_runner.get()
    request = current_request.get()
    fields: dict[str, Any] = {"runner": runner} if runner else {}
    if request is not None:
        fields["request_id"] = request
    if task is not None:
        fields |= {
            "task": task.id,
            "pipeline": task.pipeline,
            "attempt": task.attempt,
            **task.context,
        }
    return fields


def task_ended(
    task: Task[Any], status: str, duration_seconds: float, failure: Failure | None = None
) -> None:
    level = logging.WARNING if failure is not None else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields = _which(task) | {"status": status, "duration_ms": round(duration_seconds * 1000, 1)}
    if failure is not None:
        fields |= {"code": failure.code, "error": failure.message}
    logger.log(level, "task %s", status, extra=fields)


def task_overdue(task: Task[Any], failure: Failure) -> None:
    logger.warning(
        "task taken back: %s",
        failure.message,
        extra=_which(task) | {"code": failure.code, "stack": failure.stack},
    )


def taken_over(task: Task[Any]) -> None:
    logger.warning("task stopped: another session put it back or ended it", extra=_which(task))


def ends_late(task: Task[Any], what: list[str]) -> None:
    logger.warning(
        "the attempt has ended and waits for what it started: %s",
        ", ".join(what),
        extra=_which(task),
    )


def left_running(task: Task[Any], what: list[str]) -> None:
    logger.warning(
        "work that ignores its cancellation goes on after the end of its attempt: %s",
        ", ".join(what),
        extra=_which(task),
    )


def write_refused(task: Task[Any]) -> None:
    logger.info("write refused by the fence: the task is no longer ours", extra=_which(task))


def _which(task: Task[Any]) -> dict[str, Any]:
    return {
        "task": task.id,
        "pipeline": task.pipeline,
        "attempt": task.attempt,
        # as one field: logging refuses some names as extra fields
        "task_context": task.context,
    }


def runner_started(runner_id: int, name: str, pipelines: list[str], concurrency: int) -> None:
    fields = {
        "runner_id": runner_id,
        "runner": name,
        "pipelines": pipelines,
        "concurrency": concurrency,
    }
    logger.info("runner started", extra=fields)


def runner_stopped(runner_id: int, name: str, report: str) -> None:
    logger.info("runner stopped: %s", report, extra={"runner_id": runner_id, "runner": name})


def registers_again(runner: str) -> None:
    logger.info("registering again after a lost lease", extra={"runner": runner})


def rows_locked(task_ids: list[int], holders: list[str]) -> None:
    logger.warning(
        "another session has locked the rows of tasks: only their own writes wait",
        extra={"tasks": task_ids, "locked_by": holders or ["unknown"]},
    )


def runner_locked(runner_id: int, holders: list[str]) -> None:
    logger.error(
        "another session has locked the runner's row: the lease cannot be renewed",
        extra={"runner_id": runner_id, "locked_by": holders or ["unknown"]},
    )


def session_ended(pid: int, user: str, ended: bool) -> None:
    fields = {"pid": pid, "user": user}
    if ended:
        logger.info("ended a session of a lost runner and its transaction", extra=fields)
    else:
        logger.error(
            "a lost runner's session could not be ended: its locks stay until its own timeouts",
            extra=fields,
        )


def not_taken_back(task: Task[Any], error: BaseException) -> None:
    logger.warning(
        "an overdue task could not be taken back yet: %s", str(error).strip(), extra=_which(task)
    )


def timeline_over(runner_id: int) -> None:
    logger.error(
        "the database failed over or was restored: this runner gives up its tasks and begins again",
        extra={"runner_id": runner_id},
    )


def lease_lost(runner_id: int, reason: str) -> None:
    logger.error(
        "lease lost: this runner gives up all its tasks",
        extra={"runner_id": runner_id, "reason": reason},
    )


def database_away(what: str, error: BaseException) -> None:
    reason = why_unreachable(error)
    logger.warning("the database is away: %s", reason, extra={"during": what, "error": reason})


def connection_silent(backend_pid: int, silent_seconds: float) -> None:
    logger.warning(
        "a connection is given up: the server does not work on its statement",
        extra={"backend_pid": backend_pid, "silent_seconds": round(silent_seconds, 1)},
    )


def hints_lost(error: BaseException) -> None:
    logger.warning(
        "hints were not sent; runners find the tasks with their next poll",
        extra={"error": str(error).strip()},
    )


def sweep(name: str, result: object) -> None:
    logger.info("watchdog: %s", name, extra={"result": str(result)})


def sweep_failed(name: str, error: BaseException) -> None:
    logger.warning("watchdog: %s failed", name, extra={"error": str(error).strip()})
