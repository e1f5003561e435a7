"""An event of the feed as it goes over the wire: encoded once, whatever the number of clients that
get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from regente.api.redaction import redacted
from regente.api.stream.position import Position

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
    position = Position(int(row["txid"]), row["id"])
    mission_id = _mission_of(row)
    told = {
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
    return FeedEvent(position, frame(told, position), mission_id, row["batch_id"], row["pipeline"])


def frame(data: Any, position: Position, name: str = "") -> bytes:
    """One SSE event; without a name it is what `EventSource.onmessage` hears. JSON holds no line
    break."""
    named = b"event: %b\n" % name.encode() if name else b""
    return b"%bid: %b\ndata: %b\n\n" % (named, str(position).encode(), msgspec.json.encode(data))


def _mission_of(row: dict[str, Any]) -> int | None:
    """A mission's own events, and what its worker says about it."""
    if row["pipeline"] == MISSIONS:
        return int(row["task_id"])
    details = row["details"]
    told = details.get("mission_id") if isinstance(details, dict) else None
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _details(details: Any, most_bytes: int) -> Any:
    """An event that cannot be told must not stop those after it: numbers without end, or nested
    without end."""
    try:
        shown = redacted(details)
        if shown is None or len(msgspec.json.encode(shown)) <= most_bytes:
            return shown
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    return {"omitted": "not fit for the stream: ask for the event itself"}
