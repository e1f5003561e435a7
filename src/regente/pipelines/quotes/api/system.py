"""`/api/system/…`: the endpoints of the quotes' specification. They are about quotes, unless a
request asks for another pipeline, or for `all`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MAX_PAGE, Id
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.routes import batches
from regente.api.state import Api, ApiDep
from regente.engine.errors import IllegalTransition, NotFound
from regente.engine.models import BatchInfo, Resumed
from regente.pipelines.quotes.api.additions import LATEST_EVENTS
from regente.pipelines.quotes.api.system_models import (
    QUOTE_STATES,
    BatchStatus,
    CleanedUp,
    ProcessingStats,
    Recovered,
    StuckQuote,
    StuckQuotes,
    SystemHealth,
)
from regente.pipelines.quotes.maintenance import OLD_SECONDS, QUOTES, STUCK_SECONDS
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.queries import SYSTEM

routes = resource("/api/system", "system")

ALL = "all"
Pipeline = Annotated[
    str,
    Query(min_length=1, max_length=200, description="Another pipeline instead, or `all` of them."),
]


@routes.get("/health", summary="Health check")
async def health(api: ApiDep, who: Viewer) -> SystemHealth:
    (row,) = await QUERIES.fetch_all(api.database, "ping")
    return SystemHealth(timestamp=row["now"])


@routes.get("/processing-stats", summary="Count the quotes in progress by checkpoint")
async def processing_stats(
    api: ApiDep, who: Viewer, pipeline: Pipeline = QUOTES
) -> ProcessingStats:
    """Those that wait between two attempts are counted, too; they are not stuck."""
    (row,) = await SYSTEM.fetch_all(
        api.database,
        "processing_stats",
        stuck_seconds=STUCK_SECONDS,
        pipeline=pipeline,
        others=[name for one in api.additions for name in one.checkpoints_of],
    )
    (average,) = await SYSTEM.fetch_all(
        api.database, "average_seconds", events=LATEST_EVENTS, pipeline=pipeline
    )
    found = ProcessingStats(**row, avg_processing_time_seconds=round(average["seconds"] or 0.0, 2))
    for one in api.additions:
        for running in await one.running(api.database):
            if pipeline in (ALL, running["pipeline"]):
                counts, checkpoint = found.by_checkpoint, running["checkpoint"]
                counts[checkpoint] = counts.get(checkpoint, 0) + running["tasks"]
    return found


@routes.get("/stuck-quotes", summary="Quotes that show no heartbeat for 10 minutes")
async def stuck_quotes(api: ApiDep, who: Viewer, pipeline: Pipeline = QUOTES) -> StuckQuotes:
    rows = await SYSTEM.fetch_all(
        api.database, "stuck", stuck_seconds=STUCK_SECONDS, pipeline=pipeline, limit=MAX_PAGE
    )
    for one in api.additions:
        checkpoints = await one.checkpoints(api.database, [row["id"] for row in rows])
        for row in rows:
            row["processing_checkpoint"] = checkpoints.get(row["id"], row["processing_checkpoint"])
    return StuckQuotes(count=len(rows), quotes=[StuckQuote(**row) for row in rows])


@routes.post("/recover-stuck", summary="Return stuck quotes to the queue")
async def recover_stuck(
    api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = QUOTES
) -> Recovered:
    ids = await api.regente.recover_stuck(STUCK_SECONDS, pipeline=_one(pipeline), by=who.name)
    note.about({"pipeline": pipeline}, after={"recovered": len(ids), "ids": ids[:100]})
    return Recovered(recovered=len(ids), ids=ids)


@routes.post("/recover-quote/{quote_id}", summary="Recover a quote")
async def recover_quote(
    quote_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = QUOTES
) -> Recovered:
    """Returns a stuck quote to the queue, or retries a failed one."""
    before = await api.regente.get(quote_id)
    if pipeline not in (ALL, before.pipeline):
        raise NotFound(f"task {quote_id} is of the pipeline {before.pipeline}, not of {pipeline}")
    recovered = await api.regente.recover_stuck(STUCK_SECONDS, task_id=quote_id, by=who.name)
    if not recovered and not (before.status == "failed" and await api.retry(quote_id, by=who.name)):
        raise IllegalTransition(
            f"task {quote_id} is {before.status} and not stuck: there is nothing to recover"
        )
    note.about({"task_id": quote_id}, before={"status": before.status}, after={"status": "queued"})
    return Recovered(recovered=1, ids=[quote_id])


@routes.post("/resume-batch/{batch_id}", summary="Resume a stalled lot")
async def resume_batch(
    batch_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = QUOTES
) -> Resumed:
    await _require_quotes(api, batch_id, pipeline)
    return await batches.resume(batch_id, api, who, note)


@routes.get("/batch-status/{batch_id}", summary="Show a lot")
async def batch_status(
    batch_id: Id, api: ApiDep, who: Viewer, pipeline: Pipeline = QUOTES
) -> BatchStatus:
    await _require_quotes(api, batch_id, pipeline)
    found = await batches.detail(api, batch_id)
    heartbeat = await QUERIES.fetch_one(api.database, "batch_heartbeat", batch_id=batch_id)
    ended = found.completed + found.failed + found.canceled + found.skipped
    waiting = await between_attempts(api, found)
    return BatchStatus(
        batch_id=found.id,
        name=found.name,
        status=QUOTE_STATES[found.status],
        total=found.total,
        pending=found.draft + found.queued - waiting,
        processing=found.running + waiting,
        completed=found.completed,
        failed=found.failed,
        cancelled=found.canceled,
        skipped=found.skipped,
        eta_seconds=found.eta_seconds,
        progress_percentage=round(100 * ended / found.total, 2) if found.total else 0.0,
        last_heartbeat=heartbeat["at"] if heartbeat else None,
        errors={one.code or "UNKNOWN": one.tasks for one in found.errors},
    )


@routes.post("/cleanup-old", summary="Fail quotes that have been processing for more than 24 hours")
async def cleanup_old(
    api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = QUOTES
) -> CleanedUp:
    """Those that wait between two attempts too; with `all`, no waiting task of another pipeline,
    which may sleep on purpose."""
    give_up = api.regente.give_up_old
    ids = await give_up(
        OLD_SECONDS,
        pipeline=QUOTES if pipeline == ALL else pipeline,
        between_attempts=True,
        by=who.name,
    )
    if pipeline == ALL:
        ids += await give_up(OLD_SECONDS, by=who.name)
    note.about({"pipeline": pipeline}, after={"marked_as_error": len(ids), "ids": ids[:100]})
    return CleanedUp(marked_as_error=len(ids), ids=ids)


async def between_attempts(api: Api, batch: BatchInfo) -> int:
    """How many of the batch's queued tasks are quotes that wait for another attempt."""
    return min(batch.queued, await QuoteOperations(api.regente).between_attempts(batch.id))


async def _require_quotes(api: Api, batch_id: int, pipeline: str) -> None:
    """Refuse a batch without quotes, unless another pipeline is asked for."""
    row = await SYSTEM.fetch_one(api.database, "has_others_only", batch_id=batch_id)
    if pipeline == QUOTES and row is not None and row["others_only"]:
        raise NotFound(f"batch {batch_id} has no quotes (pipeline=all shows it)")


def _one(pipeline: str) -> str | None:
    return None if pipeline == ALL else pipeline
