"""`/api/batches`: batches of tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import Id
from regente.api.models.basics import Page
from regente.api.models.tasks import (
    BatchDetail,
    BatchQuery,
    Canceled,
    ErrorCount,
    Reprocess,
    Requeued,
)
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.models import BatchInfo, Resumed
from regente.redaction import redacted

routes = resource("/api/batches", "batches")


@routes.get("", summary="List batches, newest first")
async def list_batches(
    query: Annotated[BatchQuery, Query()], api: ApiDep, who: Viewer
) -> Page[BatchInfo]:
    found = await api.reads.find_batches(
        statuses=query.statuses, before_id=query.before_id, limit=query.limit + 1
    )
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=[_shown(one) for one in found[: query.limit]], next=more)


@routes.get("/{batch_id}", summary="Show a batch with its counts, errors and last task")
async def show(batch_id: Id, api: ApiDep, who: Viewer) -> BatchDetail:
    return await detail(api, batch_id)


@routes.post("/{batch_id}/resume", summary="Resume a stalled batch")
async def resume(batch_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Resumed:
    """Idempotent: of two concurrent calls one resumes it, the other changes nothing."""
    before = await api.reads.batch(batch_id)
    done = await api.regente.resume_batch(batch_id, by=who.name)
    note.about({"batch_id": batch_id}, before={"status": before.status}, after=done.model_dump())
    return done


@routes.post("/{batch_id}/reprocess", summary="Retry failed tasks of a batch")
async def reprocess(
    batch_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep, body: Reprocess | None = None
) -> Requeued:
    """All failed tasks, or those with one of the codes or ids."""
    chosen = body or Reprocess()
    before = await api.reads.batch(batch_id)
    ids = await api.regente.reprocess_batch(
        batch_id, codes=chosen.codes, ids=chosen.ids, by=who.name
    )
    note.about(
        {"batch_id": batch_id}, before={"failed": before.failed}, after={"requeued": len(ids)}
    )
    return Requeued(count=len(ids), ids=ids)


@routes.post("/{batch_id}/cancel", summary="Cancel a batch")
async def cancel(batch_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Canceled:
    """Only unfinished tasks are canceled."""
    before = await api.reads.batch(batch_id)
    done = await api.regente.cancel_batch(batch_id, by=who.name)
    note.about({"batch_id": batch_id}, before={"status": before.status}, after=done)
    return Canceled(**done)


async def detail(api: Api, batch_id: int) -> BatchDetail:
    batch = await api.reads.batch(batch_id)
    errors = await QUERIES.fetch_all(api.database, "batch_errors", batch_id=batch_id)
    last = await QUERIES.fetch_one(api.database, "batch_last", batch_id=batch_id)
    route = batch.details.get("route")
    return BatchDetail(
        **_shown(batch).model_dump(),
        errors=[ErrorCount(**row) for row in errors],
        last_task_id=last["id"] if last else None,
        last_key=last["key"] if last else None,
        route=route if isinstance(route, str) else None,
    )


def _shown(batch: BatchInfo) -> BatchInfo:
    return batch.model_copy(update={"details": redacted(batch.details)})


__all__ = ["detail", "routes"]
