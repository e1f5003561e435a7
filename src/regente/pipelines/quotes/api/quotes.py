"""`/api/quotes`: submit quotes and show their evidence; they are canceled and retried as tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import Id
from regente.api.models.basics import Page, PageQuery
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.pipelines.quotes.api.models import (
    NewQuotes,
    QuoteLotDetail,
    QuoteQuery,
    SubmittedQuotes,
)
from regente.pipelines.quotes.api.system import between_attempts
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.read_models import Quote, QuoteDetail, QuoteLot
from regente.redaction import redacted

Position = Annotated[int, Path(ge=0, le=2**31 - 1, description="The source's position.")]

routes = resource("/api/quotes", "quotes")


@routes.post("", summary="Submit quotes", status_code=202)
async def submit(
    body: NewQuotes, api: ApiDep, who: Operator, note: AuditNoteDep
) -> SubmittedQuotes:
    """Stores all or none, durably. A reference that the lot has already is not quoted again."""
    quotes = [
        QuoteArgs(description=one.description, reference=one.reference) for one in body.each()
    ]
    done = await _operations(api).submit(quotes, lot=body.lot)
    note.about(
        {"lot": done.lot, "batch_id": done.batch_id},
        after={"submitted": len(done.ids), "ids": done.ids[:100]},
    )
    return SubmittedQuotes(count=len(done.ids), ids=done.ids, batch_id=done.batch_id, lot=done.lot)


@routes.get("", summary="List quotes, newest first")
async def list_quotes(
    query: Annotated[QuoteQuery, Query()], api: ApiDep, who: Viewer
) -> Page[Quote]:
    found = await _operations(api).find(
        statuses=query.status,
        batch_id=query.lot_id,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more)


@routes.get("/lots", summary="List lots, newest first")
async def list_lots(
    query: Annotated[PageQuery, Query()], api: ApiDep, who: Viewer
) -> Page[QuoteLot]:
    found = await _operations(api).lots(before_id=query.before_id, limit=query.limit + 1)
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more)


@routes.get("/lots/{lot_id}", summary="Show a lot with its value and counts")
async def show_lot(lot_id: Id, api: ApiDep, who: Viewer) -> QuoteLotDetail:
    lot, batch = await _operations(api).lot(lot_id)
    waiting = await between_attempts(api, batch)
    return QuoteLotDetail(
        **lot.model_dump(),
        pending=batch.draft + batch.queued - waiting,
        processing=batch.running + waiting,
        completed=batch.completed,
        failed=batch.failed,
        cancelled=batch.canceled + batch.skipped,
        eta_seconds=batch.eta_seconds,
    )


@routes.get("/{quote_id}", summary="Show a quote with its evidence")
async def show(quote_id: Id, api: ApiDep, who: Viewer) -> QuoteDetail:
    found = await _operations(api).get(quote_id)
    return found.model_copy(update={"resume_data": redacted(found.resume_data)})


@routes.get(
    "/{quote_id}/sources/{position}/image",
    summary="Show the page of a source, as an image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "PNG."}},
)
async def screenshot(quote_id: Id, position: Position, api: ApiDep, who: Viewer) -> Response:
    """If screenshots are on, of each page that a price was read from."""
    png = await _operations(api).screenshot(quote_id, position)
    return Response(png, media_type="image/png")


def _operations(api: Api) -> QuoteOperations:
    return QuoteOperations(api.regente)
