"""Runs one attempt and classifies how it ended, as an `Outcome`. Writes nothing."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

from regente.engine.codec import MAX_OUTPUT_BYTES, encode
from regente.engine.errors import (
    Blocked,
    ControlFlow,
    DatabaseUnavailable,
    Fatal,
    Held,
    InvalidInput,
    RegenteError,
    ReplayMismatch,
    Skip,
    Suspended,
    TaskError,
    Throttled,
    Waiting,
)
from regente.engine.log import current_task, ends_late, left_running
from regente.engine.outcome import Completed, Ended, Failure, FailureClass, Outcome, stack_of
from regente.engine.pipeline import Pipeline
from regente.engine.retry import outage_wait_seconds
from regente.engine.task import StopReason, Task

NOTHING = Completed(None)  # what most tasks return


async def perform(task: Task[Any], pipeline: Pipeline) -> Outcome | None:
    """Run the pipeline and return the outcome; None when the attempt has lost its task."""
    current_task.set(task)
    try:
        outcome = await _outcome(task, pipeline)
    except asyncio.CancelledError:
        await _end_started(task, pipeline)
        raise
    await _end_started(task, pipeline)
    # What the pipeline caught and did not raise again decides all the same.
    if task.mismatch is not None:
        return mismatched(task, task.mismatch)
    return outcome if task.unknown is None else held(task, task.unknown)


async def _end_started(task: Task[Any], pipeline: Pipeline) -> None:
    """End what the attempt started, so that it does not run beside the next attempt."""
    if task.started is None:
        return
    left = await task.started.end(
        pipeline.grace_seconds, lambda: task.is_lost, partial(ends_late, task)
    )
    if left:
        task.lose()
        left_running(task, left)


async def _outcome(task: Task[Any], pipeline: Pipeline) -> Outcome | None:
    try:
        value = await pipeline.function(task)
        if value is None:
            return NOTHING
        return Completed(
            encode(value, what=f"the result of {pipeline.name}", max_bytes=MAX_OUTPUT_BYTES)
        )
    except Exception as error:
        return classify(task, pipeline, error)
    except ControlFlow as control:
        return _from_control(task, control)
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
            step=task.current_step,
        )
        return failed_attempt(task, pipeline, failure)


def _classified(task: Task[Any], pipeline: Pipeline, error: BaseException) -> Outcome | None:
    if isinstance(error, ExceptionGroup):
        return _classified(task, pipeline, _leaf(error.subgroup((Fatal, InvalidInput)) or error))
    if isinstance(error, Skip):
        return Ended("skipped", "task_skipped", details={"reason": error.message, **error.details})
    if isinstance(error, Throttled):
        return _throttled(task, error, max(0.0, error.retry_after))
    if isinstance(error, DatabaseUnavailable):  # of a client's call in the pipeline
        return _throttled(task, error, outage_wait_seconds(task.attempt))
    if isinstance(error, Fatal | InvalidInput):
        return Ended(
            "failed",
            "task_failed",
            charged=1,
            failure=failure_of(task, "fatal", error),
            details=_brief(error),
        )
    return failed_attempt(task, pipeline, failure_of(task, _class_of(error), error))


def _throttled(task: Task[Any], error: BaseException, wait_seconds: float) -> Ended:
    return Ended(
        "queued",
        "task_throttled",
        delay_seconds=wait_seconds,
        failure=failure_of(task, "throttled", error),
        details={"retry_after": wait_seconds},
    )


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


def waiting(wait: Waiting) -> Ended:
    limit = {"seconds": wait.seconds} if math.isfinite(wait.seconds) else {}
    return Ended(
        "queued",
        "task_waiting",
        delay_seconds=wait.seconds,
        wait_step=wait.step,
        details={**wait.details, **limit},
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


def mismatched(task: Task[Any], mismatch: ReplayMismatch) -> Ended:
    """A dead letter: another attempt would meet the same record."""
    failure = Failure(
        "fatal",
        mismatch.code,
        str(mismatch),
        stack_of(mismatch),
        mismatch.details["step"],
        mismatch.details,
        task.snapshots,
    )
    details = {"code": mismatch.code, "step": mismatch.details["step"]}
    return Ended("failed", "task_failed", charged=1, failure=failure, details=details)


def stopped(reason: StopReason) -> Ended | None:
    """The outcome of a task that the runner stopped; None when it has lost the task."""
    if reason == "cancel":
        return Ended("canceled", "task_canceled")
    if reason == "drain":
        return Ended("queued", "task_handed_back", delay_seconds=None)
    return None


def failure_of(task: Task[Any], failure_class: FailureClass, error: BaseException) -> Failure:
    code = error.code if isinstance(error, RegenteError) else type(error).__name__
    details = error.details if isinstance(error, TaskError) else {}
    message = str(error) or type(error).__name__
    told = task.told is not None and task.told in (error, error.__cause__)
    return Failure(
        failure_class,
        code,
        message,
        stack_of(error),
        task.current_step,
        details,
        task.snapshots,
        told,
    )


def _from_control(task: Task[Any], control: BaseException) -> Outcome | None:
    """The outcome of an attempt that ended itself; None when it has lost its task."""
    if isinstance(control, Suspended):
        return suspended(control)
    if isinstance(control, Waiting):
        return waiting(control)
    if isinstance(control, Held):
        return held(task, control)
    return mismatched(task, control) if isinstance(control, ReplayMismatch) else None


def _from_group(
    task: Task[Any], pipeline: Pipeline, group: BaseExceptionGroup[BaseException]
) -> Outcome | None:
    """The outcome of an error from a TaskGroup in the pipeline: control flow inside it decides."""
    control, rest = group.split(ControlFlow)
    if control is not None:
        return _from_control(task, _leaf(control))
    if rest is not None and (cancelled := rest.subgroup(asyncio.CancelledError)) is not None:
        raise _leaf(cancelled)
    return classify(task, pipeline, _leaf(group))


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _brief(error: BaseException) -> dict[str, Any]:
    return {"code": getattr(error, "code", type(error).__name__), "message": str(error)[:500]}
