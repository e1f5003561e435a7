"""Runs one attempt and classifies how it ended, as an `Outcome`. Writes nothing."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from regente.engine.codec import MAX_OUTPUT_BYTES, encode
from regente.engine.errors import (
    Blocked,
    ControlFlow,
    Fatal,
    Held,
    InvalidInput,
    LeaseLost,
    RegenteError,
    Skip,
    Suspended,
    TaskError,
    Throttled,
)
from regente.engine.log import current_task
from regente.engine.outcome import Completed, Ended, Failure, FailureClass, Outcome, stack_of
from regente.engine.pipeline import Pipeline
from regente.engine.task import StopReason, Task

NOTHING = Completed(None)  # what most tasks return


async def perform(task: Task[Any], pipeline: Pipeline) -> Outcome | None:
    """Run the pipeline and return the outcome; None when the attempt has lost its task."""
    current_task.set(task)
    try:
        value = await pipeline.function(task)
        if value is None:
            return NOTHING
        return Completed(
            encode(value, what=f"the result of {pipeline.name}", max_bytes=MAX_OUTPUT_BYTES)
        )
    except Exception as error:
        return classify(task, pipeline, error)
    except LeaseLost:
        return None
    except Suspended as sleep:
        return suspended(sleep)
    except Held as hold:
        return held(task, hold)
    except BaseExceptionGroup as group:
        return _from_group(task, pipeline, group)
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # `sys.exit`, for example: it ends the attempt, not the runner
        return classify(task, pipeline, error)


def classify(task: Task[Any], pipeline: Pipeline, error: BaseException) -> Outcome | None:
    """The outcome of an attempt that raised this error."""
    try:
        return _classified(task, pipeline, error)
    except Exception as unreadable:  # an error whose `str` fails must not cost the runner a slot
        failure = Failure(
            "transient",
            type(error).__name__,
            f"the error could not be read: {unreadable!r}",
            step=task.standing,
        )
        return failed_attempt(task, pipeline, failure)


def _classified(task: Task[Any], pipeline: Pipeline, error: BaseException) -> Outcome | None:
    if isinstance(error, ExceptionGroup):
        return _classified(task, pipeline, _leaf(error.subgroup((Fatal, InvalidInput)) or error))
    if isinstance(error, Skip):
        return Ended("skipped", "task_skipped", details={"reason": error.message, **error.details})
    if isinstance(error, Throttled):
        failure = failure_of(task, "throttled", error)
        wait = max(0.0, error.retry_after)
        return Ended(
            "queued",
            "task_throttled",
            delay_seconds=wait,
            failure=failure,
            details={"retry_after": wait},
        )
    if isinstance(error, Fatal | InvalidInput):
        return Ended(
            "failed",
            "task_failed",
            charged=1,
            failure=failure_of(task, "fatal", error),
            details=_brief(error),
        )
    return failed_attempt(task, pipeline, failure_of(task, _class_of(error), error))


def _class_of(error: BaseException) -> FailureClass:
    if isinstance(error, Throttled):
        return "throttled"
    return "blocked" if isinstance(error, Blocked) else "transient"


def failed_attempt(task: Task[Any], pipeline: Pipeline, failure: Failure) -> Ended:
    """Another try by the pipeline's retry policy, or a dead letter when they are used up."""
    used = task.tries + 1
    allowed = task.claim.max_attempts or pipeline.retry.max_attempts
    details = {
        "class": failure.failure_class,
        "code": failure.code,
        "tries": used,
        "max_attempts": allowed,
    }
    if used >= allowed:
        return Ended("failed", "task_failed", charged=1, failure=failure, details=details)
    wait = pipeline.retry.delay_seconds(used)
    return Ended(
        "queued",
        "task_retried",
        charged=1,
        delay_seconds=wait,
        failure=failure,
        details={**details, "delay_seconds": wait},
    )


def suspended(sleep: Suspended) -> Ended:
    details = {"seconds": sleep.seconds}
    return Ended(
        "queued",
        "task_sleeping",
        delay_seconds=sleep.seconds,
        sleep_step=sleep.step,
        details=details,
    )


def held(task: Task[Any], hold: Held) -> Ended:
    failure = None if hold.error is None else failure_of(task, _class_of(hold.error), hold.error)
    return Ended(
        "queued",
        "task_held",
        delay_seconds=math.inf,
        failure=failure,
        details={"reason": hold.reason},
    )


def stopped(reason: StopReason) -> Ended | None:
    """The outcome of a task that the runner stopped; None when it has lost the task."""
    if reason == "cancel":
        return Ended("canceled", "task_canceled")
    if reason == "drain":
        return Ended("queued", "task_handed_back")
    return None


def failure_of(task: Task[Any], failure_class: FailureClass, error: BaseException) -> Failure:
    code = error.code if isinstance(error, RegenteError) else type(error).__name__
    details = error.details if isinstance(error, TaskError) else {}
    message = str(error) or type(error).__name__
    return Failure(
        failure_class, code, message, stack_of(error), task.standing, details, task.snapshots
    )


def _from_group(
    task: Task[Any], pipeline: Pipeline, group: BaseExceptionGroup[BaseException]
) -> Outcome | None:
    """The outcome of an error from a TaskGroup in the pipeline: control flow inside it decides."""
    control, rest = group.split(ControlFlow)
    if control is not None:
        first = _leaf(control)
        if isinstance(first, Held):
            return held(task, first)
        return suspended(first) if isinstance(first, Suspended) else None
    if rest is not None and (cancelled := rest.subgroup(asyncio.CancelledError)) is not None:
        raise _leaf(cancelled)
    return classify(task, pipeline, _leaf(group))


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _brief(error: BaseException) -> dict[str, Any]:
    return {"code": getattr(error, "code", type(error).__name__), "message": str(error)[:500]}
