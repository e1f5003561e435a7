"""How an attempt ended, as a value: what the executor decides and the ledger writes."""

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
    """Something a pipeline saw, kept with the failure of the attempt that saw it."""

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
        # The frames without their line's text and number would be better still; code and step group
        # well enough.
        marks = "\n".join((pipeline, self.code, self.step or "", _last_place(self.stack)))
        return hashlib.md5(marks.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Completed:
    result: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """Every end but completion. `charged` is 1 when the attempt counts against the pipeline's retry
    budget."""

    status: NextStatus
    event: str
    charged: int = 0
    delay_seconds: float = 0.0
    """Before it is due again; infinite for a task that is held."""
    failure: Failure | None = None
    details: dict[str, Any] = field(default_factory=dict)
    sleep_step: str | None = None

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return self.failure.snapshots if self.failure else ()

    @property
    def size_bytes(self) -> int:
        """About what it takes in a statement: snapshots are all that can be large."""
        return sum(len(snapshot.body) for snapshot in self.snapshots)

    def as_json(self, pipeline: str) -> dict[str, Any]:
        return {
            "status": self.status,
            "event": self.event,
            "charged": self.charged,
            "crashed": 0,
            "run_at": HELD.isoformat() if math.isinf(self.delay_seconds) else None,
            "delay_seconds": None if math.isinf(self.delay_seconds) else self.delay_seconds,
            "failure": self.failure.as_json(pipeline) if self.failure else None,
            "details": storable_details(self.details) or None,
            "sleep": {"step": self.sleep_step} if self.sleep_step else None,
        }


Outcome = Completed | Ended


def storable(text: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogates."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def storable_details(details: dict[str, Any]) -> Any:
    """What a pipeline attached to its error; whatever cannot be stored must not cost the failure
    its record."""
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
