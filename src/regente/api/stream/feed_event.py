"""An event of the feed, encoded once for all clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from regente.api.stream.position import Position
from regente.redaction import redacted

MISSIONS = "missions"


@dataclass(frozen=True, slots=True)
class FeedEvent:
    position: Position
    frame: bytes
    mission_id: int | None
    batch_id: int | None
    pipeline: str | None


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which events a client wants; None means any."""

    mission_id: int | None = None
    batch_id: int | None = None
    pipeline: str | None = None

    @property
    def takes_all(self) -> bool:
        return self.mission_id is None and self.batch_id is None and self.pipeline is None

    def takes(self, entry: FeedEvent) -> bool:
        return (
            (self.mission_id is None or entry.mission_id == self.mission_id)
            and (self.batch_id is None or entry.batch_id == self.batch_id)
            and (self.pipeline is None or entry.pipeline == self.pipeline)
        )


def feed_event_of(row: dict[str, Any], details_bytes: int) -> FeedEvent:
    position = Position(int(row["txid"]), row["id"], row["timeline"])
    mission_id = _mission_of(row)
    data = {
        "position": str(position),
        "at": row["at"],
        "event": row["event"],
        "task_id": row["task_id"],
        "mission_id": mission_id,
        "batch_id": row["batch_id"],
        "pipeline": row["pipeline"],
        "runner_id": row["runner_id"],
        "attempt": row["attempt"],
        "details": _details(row["details"], details_bytes),
    }
    return FeedEvent(position, frame(data, position), mission_id, row["batch_id"], row["pipeline"])


def frame(data: Any, position: Position, name: str = "") -> bytes:
    """One server-sent event; without a name `EventSource.onmessage` receives it."""
    named = b"event: %b\n" % name.encode() if name else b""
    return b"%bid: %b\ndata: %b\n\n" % (named, str(position).encode(), msgspec.json.encode(data))


def _mission_of(row: dict[str, Any]) -> int | None:
    """The mission of an event: its task, or `mission_id` in the details of a driver's event."""
    if row["pipeline"] == MISSIONS:
        return int(row["task_id"])
    details = row["details"]
    found = details.get("mission_id") if isinstance(details, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _details(details: Any, most_bytes: int) -> Any:
    """The details, unless they are too large or cannot be encoded (huge numbers, deep nesting)."""
    try:
        shown = redacted(details)
        if shown is None or len(msgspec.json.encode(shown)) <= most_bytes:
            return shown
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    return {"omitted": "too large for the stream: query the event itself"}
