"""The operations of quotes, for CLI and API: submit, list and show quotes and lots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from regente.engine.client import Client
from regente.engine.errors import InvalidInput, NotFound
from regente.engine.models import BatchInfo
from regente.pipelines.quotes.checkpoints import Checkpoint, percentage
from regente.pipelines.quotes.maintenance import CLEAN_UP, QUOTES, RECOVER, ensure_timetable
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.queries import QUERIES, SYSTEM
from regente.pipelines.quotes.read_models import (
    QUOTE_STATUSES,
    PassedCheckpoint,
    Quote,
    QuoteDetail,
    QuoteLot,
    QuoteSource,
)
from regente.pipelines.quotes.store import note_new
from regente.queries import Row

MAX_PAGE = 1000
MAX_SUBMITTED = 100_000
LOT_STALL_SECONDS = 1800.0
LOT_RESUMES = 20


@dataclass(frozen=True, slots=True)
class Submitted:
    ids: list[int]
    batch_id: int | None
    lot: str | None


class QuoteOperations:
    def __init__(self, client: Client) -> None:
        client.registry.declare(QUOTES, RECOVER, CLEAN_UP)
        self._client = client
        self._database = client.database

    async def submit(self, quotes: Sequence[QuoteArgs], *, lot: str | None = None) -> Submitted:
        """Store all quotes or none, durably. A reference that the lot has is not quoted again."""
        if not 0 < len(quotes) <= MAX_SUBMITTED:
            raise InvalidInput(
                f"submit between 1 and {MAX_SUBMITTED:,} quotes at once, not {len(quotes):,}"
            )
        await ensure_timetable(self._client)
        batch_id = None if lot is None else await self._open(lot)
        keys = [None if one.reference is None else f"{lot or ''}/{one.reference}" for one in quotes]
        async with self._database.transaction() as connection:
            args = [one.model_dump(mode="json", exclude_none=True) for one in quotes]
            ids = await self._client.enqueue_many(
                QUOTES, args, keys=keys, batch=batch_id, connection=connection
            )
            await note_new(connection, ids, quotes, lot)
        return Submitted(ids, batch_id, lot)

    async def _open(self, lot: str) -> int:
        """Open the lot; it stalls late, as a quote may wait ten minutes between two attempts."""
        return await self._client.open_batch(
            lot, stall_after=LOT_STALL_SECONDS, max_resumes=LOT_RESUMES
        )

    async def find(
        self,
        *,
        statuses: Sequence[str] | None = None,
        batch_id: int | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[Quote]:
        """A page of quotes, newest first; `before_id` is the last id of the previous page."""
        unknown = [status for status in statuses or () if status not in QUOTE_STATUSES]
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} is not a status; known: {', '.join(QUOTE_STATUSES)}"
            )
        wanted = list(statuses) if statuses is not None else None
        return [
            Quote(**_far(row)) for row in await self._rows(None, wanted, batch_id, before_id, limit)
        ]

    async def get(self, quote_id: int) -> QuoteDetail:
        rows = await self._rows([quote_id], None, None, None, 1)
        if not rows:
            raise NotFound(f"there is no quote {quote_id}")
        sources = await QUERIES.fetch_all(self._database, "sources_of", id=quote_id)
        resumed = await SYSTEM.fetch_all(self._database, "resume_data", id=quote_id)
        steps = await self._client.steps(quote_id)
        row = rows[0]
        return QuoteDetail(
            **_far(row),
            sources=[QuoteSource(**one) for one in sources],
            resume_data=resumed[0]["resume_data"],
            checkpoints=_passed(steps),
        )

    async def screenshot(self, quote_id: int, position: int) -> bytes:
        """The page of a source as PNG."""
        row = await QUERIES.fetch_one(
            self._database, "screenshot_of", id=quote_id, position=position
        )
        if row is None:
            raise NotFound(f"quote {quote_id} has no screenshot of source {position}")
        png: bytes = row["png"]
        return png

    async def lots(self, *, before_id: int | None = None, limit: int = 100) -> list[QuoteLot]:
        rows = await QUERIES.fetch_all(
            self._database, "list_lots", id=None, before_id=before_id, limit=_limited(limit)
        )
        return [QuoteLot(**row) for row in rows]

    async def lot(self, batch_id: int) -> tuple[QuoteLot, BatchInfo]:
        """The lot with its total value, and its batch."""
        row = await QUERIES.fetch_one(
            self._database, "list_lots", id=batch_id, before_id=None, limit=1
        )
        if row is None:
            raise NotFound(f"there is no lot {batch_id}")
        return QuoteLot(**row), await self._client.batch(batch_id)

    async def between_attempts(self, batch_id: int) -> int:
        """How many of the batch's quotes are being processed and wait for another attempt."""
        rows = await SYSTEM.fetch_all(self._database, "between_attempts", batch_id=batch_id)
        waiting: int = rows[0]["quotes"]
        return waiting

    async def _rows(
        self,
        ids: list[int] | None,
        statuses: list[str] | None,
        batch_id: int | None,
        before_id: int | None,
        limit: int,
    ) -> list[Row]:
        return await QUERIES.fetch_all(
            self._database,
            "list_quotes",
            ids=ids,
            statuses=statuses,
            batch_id=batch_id,
            before_id=before_id,
            limit=_limited(limit),
        )


def quote_args(description: str, reference: str | None = None) -> QuoteArgs:
    """Validate the arguments of a quote."""
    try:
        return QuoteArgs(description=description, reference=reference)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _limited(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE + 1))


def _far(row: Row) -> Row:
    return {**row, "progress_percentage": percentage(row["processing_checkpoint"], row["tested"])}


def _passed(steps: Sequence[Row]) -> list[PassedCheckpoint]:
    """The recorded checkpoints in the order in which they were reached."""
    return [
        PassedCheckpoint(
            checkpoint=one["name"],
            item=one["item"] if one["item"] >= 0 else None,
            attempt=one["attempt"],
            at=one["finished_at"],
            duration_ms=one["duration_ms"],
        )
        for one in steps
        if one["name"] in tuple(Checkpoint)
    ]
