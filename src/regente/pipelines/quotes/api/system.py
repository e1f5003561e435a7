"""`/api/system/…`: the endpoints of the quotes' specification, for tasks of any pipeline."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk.actions import retry_any
from regente.api.limits import MAX_PAGE, Id
from regente.api.models.tasks import Resumed
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.routes import batches
from regente.api.state import ApiDep
from regente.engine.errors import IllegalTransition
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
from regente.pipelines.quotes.maintenance import OLD_SECONDS, STUCK_SECONDS

routes = resource("/api/system", "system")

Pipeline = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Only this pipeline.")
]


@routes.get("/health", summary="Health check")
async def health(api: ApiDep, who: Viewer) -> SystemHealth:
    (row,) = await QUERIES.fetch_all(api.database, "ping")
    return SystemHealth(timestamp=row["now"])


@routes.get("/processing-stats", summary="Count running tasks by checkpoint")
async def processing_stats(api: ApiDep, who: Viewer, pipeline: Pipeline = None) -> ProcessingStats:
    (row,) = await QUERIES.fetch_all(
        api.database, "processing_stats", stuck_seconds=STUCK_SECONDS, pipeline=pipeline
    )
    return ProcessingStats(**row)


@routes.get("/stuck-quotes", summary="What shows no heartbeat for 10 minutes")
async def stuck_quotes(api: ApiDep, who: Viewer, pipeline: Pipeline = None) -> StuckQuotes:
    rows = await QUERIES.fetch_all(
        api.database, "stuck_tasks", stuck_seconds=STUCK_SECONDS, pipeline=pipeline, limit=MAX_PAGE
    )
    return StuckQuotes(count=len(rows), quotes=[StuckQuote(**row) for row in rows])


@routes.post("/recover-stuck", summary="Return stuck tasks to the queue")
async def recover_stuck(
    api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = None
) -> Recovered:
    ids = await api.regente.recover_stuck(STUCK_SECONDS, pipeline=pipeline, by=who.name)
    note.about({"pipeline": pipeline}, after={"recovered": len(ids), "ids": ids[:100]})
    return Recovered(recovered=len(ids), ids=ids)


@routes.post("/recover-quote/{quote_id}", summary="Recover a task")
async def recover_quote(quote_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Recovered:
    """Returns a stuck task to the queue, or retries a failed one."""
    before = await api.regente.get(quote_id)
    recovered = await api.regente.recover_stuck(STUCK_SECONDS, task_id=quote_id, by=who.name)
    if not recovered and not (
        before.status == "failed"
        and await retry_any(api.regente, api.database, [quote_id], who.name)
    ):
        raise IllegalTransition(
            f"task {quote_id} is {before.status} and not stuck: there is nothing to recover"
        )
    note.about({"task_id": quote_id}, before={"status": before.status}, after={"status": "queued"})
    return Recovered(recovered=1, ids=[quote_id])


@routes.post("/resume-batch/{batch_id}", summary="Resume a stalled batch")
async def resume_batch(batch_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Resumed:
    return await batches.resume(batch_id, api, who, note)


@routes.get("/batch-status/{batch_id}", summary="Show a batch")
async def batch_status(batch_id: Id, api: ApiDep, who: Viewer) -> BatchStatus:
    found = await batches.detail(api, batch_id)
    heartbeat = await QUERIES.fetch_one(api.database, "batch_heartbeat", batch_id=batch_id)
    ended = found.completed + found.failed + found.canceled + found.skipped
    return BatchStatus(
        batch_id=found.id,
        name=found.name,
        status=QUOTE_STATES[found.status],
        total=found.total,
        pending=found.draft + found.queued,
        processing=found.running,
        completed=found.completed,
        failed=found.failed,
        cancelled=found.canceled,
        skipped=found.skipped,
        eta_seconds=found.eta_seconds,
        progress_percentage=round(100 * ended / found.total, 2) if found.total else 0.0,
        last_heartbeat=heartbeat["at"] if heartbeat else None,
        errors={one.code or "UNKNOWN": one.tasks for one in found.errors},
    )


@routes.post("/cleanup-old", summary="Fail tasks that have been processing for more than 24 hours")
async def cleanup_old(
    api: ApiDep, who: Operator, note: AuditNoteDep, pipeline: Pipeline = None
) -> CleanedUp:
    """With a pipeline, also tasks that wait between two attempts."""
    ids = await api.regente.give_up_old(
        OLD_SECONDS, pipeline=pipeline, between_attempts=pipeline is not None, by=who.name
    )
    note.about({"pipeline": pipeline}, after={"marked_as_error": len(ids), "ids": ids[:100]})
    return CleanedUp(marked_as_error=len(ids), ids=ids)
