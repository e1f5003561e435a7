"""Reads the stream's events from the database, in pages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from regente.api.stream.feed_event import FeedEvent, feed_event_of
from regente.api.stream.position import BEGINNING, Position
from regente.engine.database import Database, text_array
from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("stream.sql"))

MAX_IDLE_SECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Bounds:
    floor: Position
    """Events up to here may have been deleted by retention."""
    next_txid: int
    timeline: str
    timelines: int
    """How many this database has had."""

    def why_not(self, position: Position) -> str | None:
        """Why the stream cannot continue from there without a gap; None if it can."""
        if position.txid >= self.next_txid or not self._knows(position):
            return "unknown"  # of another database, or of this one before a failover or a restore
        return "forgotten" if position[:2] < self.floor[:2] else None

    def _knows(self, position: Position) -> bool:
        if not position.timeline:  # as other lists of events show it
            return position == BEGINNING or self.timelines == 1
        return position.timeline == self.timeline


@dataclass(frozen=True, slots=True)
class Page:
    timeline: str
    events: list[FeedEvent]


class FeedReader:
    def __init__(self, database: Database, details_bytes: int) -> None:
        self._database = database
        self._details_bytes = details_bytes

    async def start(self, back: int) -> Position:
        timeline = (await self._database.fetch("enter_timeline"))[0][0]
        (row,) = await QUERIES.fetch_all(self._database, "stream_start", back=back)
        return Position(int(row["txid"]), row["id"], timeline)

    async def page(self, after: Position, limit: int) -> Page:
        rows = await QUERIES.fetch_all(
            self._database,
            "stream_page",
            after_txid=str(after.txid),
            after_id=after.id,
            limit=limit,
        )
        events = [row for row in rows if row["id"] is not None]
        return Page(
            rows[0]["timeline"] or "", [feed_event_of(row, self._details_bytes) for row in events]
        )

    async def bounds(self) -> Bounds:
        (row,) = await QUERIES.fetch_all(self._database, "stream_bounds")
        floor = Position(int(row["floor_txid"]), row["floor_id"])
        return Bounds(floor, int(row["next_txid"]), row["timeline"] or "", row["timelines"])

    async def valid_keys(self, key_ids: Collection[str]) -> set[str]:
        if not key_ids:
            return set()
        rows = await QUERIES.fetch_all(
            self._database, "stream_keys", ids=text_array(sorted(key_ids))
        )
        return {row["id"] for row in rows}

    async def session_roles(
        self, session_ids: Collection[str], idle_seconds: float
    ) -> dict[str, str]:
        """The roles of those of these sessions that are valid."""
        if not session_ids:
            return {}
        rows = await QUERIES.fetch_all(
            self._database,
            "stream_sessions",
            ids=text_array(sorted(session_ids)),
            idle_seconds=min(idle_seconds, MAX_IDLE_SECONDS),
        )
        return {row["id"]: row["role"] for row in rows}
