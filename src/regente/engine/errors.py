"""Every error of the engine, in one tree, each with a stable `code`.

RegenteError                      what callers of the API catch
├── InvalidInput                  refused; nothing was stored
│   ├── UnknownPipeline
│   ├── InvalidArgs
│   ├── UnknownPosition          of the feed: its history is not this database's
│   └── PayloadTooLarge
├── NotFound
├── IllegalTransition             refused by the state machine
├── AlreadyEnqueued               the key belongs to another task (`on_conflict="error"`)
├── DatabaseUnavailable
│   └── TimelineOver              it failed over: a runner's registration ends
│   └── RowLocked                 another session holds a lock on the row
├── StatementTimeout              the server's statement_timeout ends what Regente asks it
├── SchemaOutdated
└── TaskError                     raised by pipelines, classified by the executor
    ├── Transient                 try again by the pipeline's policy
    │   ├── Blocked               try again through another resource
    │   └── UnknownOutcome        the call may have taken effect: its answer is lost
    ├── Throttled                 wait, without using up an attempt
    │   └── LaneBusy              a call found no place in its lane
    ├── Fatal                     straight to the dead letters
    │   ├── SignalTimeout         no signal came in time
    │   └── ChildrenFailed        tasks that a step spawned failed
    └── Skip                      nothing to do; not a failure

ControlFlow (BaseException)       a pipeline's `except Exception` cannot swallow it
├── LeaseLost                     this attempt no longer owns its task
├── ReplayMismatch                the code asks for another call than the one that was recorded
├── Suspended                     the task sleeps durably and gives its slot back
├── Waiting                       the task waits for a signal or its children
└── Held                          the task gives its slot back until it is released
"""

from __future__ import annotations

import math
from typing import Any


class RegenteError(Exception):
    code = "REGENTE"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = str(code)


class InvalidInput(RegenteError):
    code = "INVALID_INPUT"


class UnknownPipeline(InvalidInput):
    code = "UNKNOWN_PIPELINE"


class InvalidArgs(InvalidInput):
    code = "INVALID_ARGS"


class UnknownPosition(InvalidInput):
    """The database failed over or was restored since: what followed the position may be missing."""

    code = "UNKNOWN_POSITION"


class PayloadTooLarge(InvalidInput):
    code = "PAYLOAD_TOO_LARGE"


class NotFound(RegenteError):
    code = "NOT_FOUND"


class IllegalTransition(RegenteError):
    code = "ILLEGAL_TRANSITION"


class AlreadyEnqueued(RegenteError):
    """The key belongs to another task, whose id is `task_id`."""

    code = "ALREADY_ENQUEUED"

    def __init__(self, message: str, task_id: int | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class DatabaseUnavailable(RegenteError):
    code = "DATABASE_UNAVAILABLE"


class RowLocked(DatabaseUnavailable):
    code = "ROW_LOCKED"


class TimelineOver(DatabaseUnavailable):
    """The database failed over or was restored; what this registration wrote may be missing."""

    code = "TIMELINE_OVER"


class StatementTimeout(RegenteError):
    code = "STATEMENT_TIMEOUT"


class SchemaOutdated(RegenteError):
    code = "SCHEMA_OUTDATED"


class TaskError(RegenteError):
    """Base of the errors that pipelines raise. `details` is stored with the failure."""

    code = "TASK_ERROR"

    def __init__(
        self, message: str = "", *, code: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message or type(self).__name__, code=code)
        self.details = details or {}


class Transient(TaskError):
    code = "TRANSIENT"


class Blocked(Transient):
    code = "BLOCKED"


class UnknownOutcome(Transient):
    """Raised by a call whose answer got lost: it may have taken effect. A step with
    `on_unknown="hold"` is then put before a person."""

    code = "UNKNOWN_OUTCOME"


class Throttled(TaskError):
    code = "THROTTLED"

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float = 60.0,
        code: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        self.retry_after = float(retry_after)
        if not math.isfinite(self.retry_after):
            raise ValueError(f"retry_after is a number of seconds, not {retry_after}")


class LaneBusy(Throttled):
    """Raised by `task.in_lane`: the lane had no place for the call in time. `is_parked` when none
    of its calls starts, for longer than the call waits."""

    code = "LANE_BUSY"

    def __init__(self, message: str, *, retry_after: float, is_parked: bool) -> None:
        super().__init__(message, retry_after=retry_after)
        self.is_parked = is_parked


class Fatal(TaskError):
    code = "FATAL"


class SignalTimeout(Fatal):
    """Raised by `task.wait_for` at this and every later attempt: no signal came in time."""

    code = "SIGNAL_TIMEOUT"


class ChildrenFailed(Fatal):
    """Raised by `task.spawn` when tasks that it spawned failed or were canceled."""

    code = "CHILDREN_FAILED"


class Skip(TaskError):
    code = "SKIPPED"


class ControlFlow(BaseException):
    """Never caught by a pipeline's `except Exception`."""


class LeaseLost(ControlFlow):
    """The task was taken over, canceled or finished elsewhere: this attempt may write nothing
    more."""


class ReplayMismatch(ControlFlow):
    """A step was recorded for one call and is now asked for another: its result is not this
    call's result."""

    code = "REPLAY_MISMATCH"

    def __init__(self, message: str, details: dict[str, Any]) -> None:
        super().__init__(message)
        self.details = details


class Suspended(ControlFlow):
    """The task sleeps until `seconds` from now and gives its slot back."""

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(step)
        self.step = step
        self.seconds = seconds


class Waiting(ControlFlow):
    """The task waits at `step` for a signal or its children, for `seconds` at most, and gives its
    slot back. `details` say for what."""

    def __init__(self, step: str, seconds: float, details: dict[str, Any]) -> None:
        super().__init__(step)
        self.step = step
        self.seconds = seconds
        self.details = details


class Held(ControlFlow):
    """The task gives its slot back and waits until it is released."""

    def __init__(self, reason: str, error: TaskError | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error
