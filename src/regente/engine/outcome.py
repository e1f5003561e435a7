"""The outcome of an attempt, as a value: the executor decides it, the task store writes it."""

from __future__ import annotations

import hashlib
import json
import math
import traceback
from dataclasses import dataclass, field
from typing import Any, Literal

from regente.engine.codec import encode
from regente.engine.errors import InvalidInput
from regente.engine.holding import HELD

MAX_MESSAGE_CHARACTERS = 4_000
MAX_STACK_CHARACTERS = 32_000

FailureClass = Literal["transient", "blocked", "throttled", "fatal", "timeout", "stall", "crash"]
NextStatus = Literal["queued", "failed", "canceled", "skipped"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page, screenshot or response that a pipeline kept; stored with the attempt's failure."""

    name: str
    content_type: str
    body: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    failure_class: FailureClass
    code: str
    message: str
    stack: str | None = None
    step: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    snapshots: tuple[Snapshot, ...] = ()
    is_told: bool = False
    """A lane has heard of it: that of the call which failed. The task's own lane does not."""

    def as_json(self, pipeline: str) -> dict[str, Any]:
        return {
            "class": self.failure_class,
            "code": storable(self.code)[:200],
            "message": storable(self.message)[:MAX_MESSAGE_CHARACTERS],
            "stack": storable(self.stack)[-MAX_STACK_CHARACTERS:] if self.stack else None,
            "step": storable(self.step) if self.step else None,
            "details": storable_details(self.details),
            "fingerprint": self._fingerprint(pipeline),
        }

    def _fingerprint(self, pipeline: str) -> str:
        # Pipeline, code, step and the last frame, without its line: equal failures group together.
        marks = "\n".join((pipeline, self.code, self.step or "", _last_place(self.stack)))
        return hashlib.md5(marks.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """Every outcome except completion. `charged` is 1 when the attempt uses up one of the task's
    tries."""

    status: NextStatus
    event: str
    charged: int = 0
    delay_seconds: float | None = 0.0
    """Before it is due again; infinite for a task that is held, None for one that keeps its place
    in the queue."""
    failure: Failure | None = None
    details: dict[str, Any] = field(default_factory=dict)
    sleep_step: str | None = None
    wait_step: str | None = None
    """The step that waits. When what it waits for is there meanwhile, the task is due at once."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.failure.snapshots if self.failure else ()

    @property
    def size_bytes(self) -> int:
        """The approximate size in a statement: only snapshots are large."""
        return sum(len(snapshot.body) for snapshot in self.snapshots)

    def as_json(self, pipeline: str) -> dict[str, Any]:
        held = self.delay_seconds is not None and math.isinf(self.delay_seconds)
        return {
            "status": self.status,
            "event": self.event,
            "charged": self.charged,
            "crashed": 0,
            "run_at": HELD.isoformat() if held else None,
            "delay_seconds": None if held else self.delay_seconds,
            "failure": self.failure.as_json(pipeline) if self.failure else None,
            "details": storable_details(self.details) or None,
            "sleep": {"step": self.sleep_step} if self.sleep_step else None,
            "wait": self.wait_step,
        }


Outcome = Completed | Ended


def storable(text: str) -> str:
    """Text that PostgreSQL stores: without NUL and lone surrogates."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def storable_details(details: dict[str, Any]) -> Any:
    """The details of an error as JSON; as text when they cannot be stored, so that the failure is
    recorded in any case."""
    try:
        return json.loads(encode(details, what="details"))
    except InvalidInput as error:
        return {
            "not_storable": storable(str(error)),
            "text": storable(repr(details))[:MAX_MESSAGE_CHARACTERS],
        }


def stack_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-30))


def _last_place(stack: str | None) -> str:
    places = [
        line.strip() for line in (stack or "").splitlines() if line.lstrip().startswith("File ")
    ]
    return places[-1].partition(", line")[0] + places[-1].rpartition(", in")[2] if places else ""
