"""Reads the stream's events from the database, in pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regente.api.stream.feed_event import FeedEvent, feed_event_of
from regente.api.stream.position import Position
from regente.engine.database import Database, text_array
from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("stream.sql"))


@dataclass(frozen=True, slots=True)
class Bounds:
    floor: Position
    """Events up to here may have been deleted by retention."""
    next_txid: int

    def why_not(self, position: Position) -> str | None:
        """Why the stream cannot continue from there without a gap; None if it can."""
        if position.txid >= self.next_txid:
            return "unknown"  # of another database, or of this one before it was restored
        return "forgotten" if position < self.floor else None


class FeedReader:
    def __init__(self, database: Database, details_bytes: int) -> None:
        self._database = database
        self._details_bytes = details_bytes

    async def start(self, back: int) -> Position:
        (row,) = await QUERIES.fetch_all(self._database, "stream_start", back=back)
        return Position(int(row["txid"]), row["id"])

    async def page(self, after: Position, limit: int) -> list[FeedEvent]:
        rows = await QUERIES.fetch_all(
            self._database,
            "stream_page",
            after_txid=str(after.txid),
            after_id=after.id,
            limit=limit,
        )
        return [feed_event_of(row, self._details_bytes) for row in rows]

    async def bounds(self) -> Bounds:
        (row,) = await QUERIES.fetch_all(self._database, "stream_bounds")
        return Bounds(Position(int(row["floor_txid"]), row["floor_id"]), int(row["next_txid"]))

    async def valid_keys(self, key_ids: Iterable[str]) -> set[str]:
        rows = await QUERIES.fetch_all(
            self._database, "stream_keys", ids=text_array(sorted(key_ids))
        )
        return {row["id"] for row in rows}
