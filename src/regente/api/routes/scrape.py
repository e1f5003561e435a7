"""`/api/scrape`: the endpoints of the rounds' specification. A round is a task that writes one task per match."""

from __future__ import annotations

from starlette.requests import Request

from regente.api.access.roles import Operator
from regente.api.audit import Noting
from regente.api.bulk.kinds import Kind
from regente.api.bulk.requests import MAX_SELECTED
from regente.api.models.seeds import RetriedFailed, RetryFailed, StartedScrape, StartScrape
from regente.api.resource import resource
from regente.api.state import Used

routes = resource("/api/scrape", "scrape")

STATES = {"draft": "PENDING", "queued": "PENDING", "running": "RUNNING", "completed": "FINISHED", "failed": "FAILED"}


@routes.post("", summary="Start a round", status_code=202)
async def start(body: StartScrape, api: Used, who: Operator, note: Noting) -> StartedScrape:
    """Durable when this answers. A round that was started before is not started twice."""
    task_id = await api.regente.enqueue(body.pipeline, body.args, key=body.round)
    task = await api.regente.get(task_id)
    note.about({"task_id": task_id, "round": body.round}, after={"status": task.status})
    return StartedScrape(
        job_id=task_id, round=body.round, pipeline=body.pipeline, status=STATES.get(task.status, task.status.upper())
    )


@routes.post("/retry-failed", summary="Run again only what failed", status_code=202)
async def retry_failed(
    request: Request, api: Used, who: Operator, note: Noting, body: RetryFailed | None = None
) -> RetriedFailed:
    """All dead letters, or those of a pipeline, a batch, a code, or some ids."""
    chosen = body or RetryFailed()
    found = await api.book.rows(
        "select_failures", pipeline=chosen.pipeline, code=chosen.code, batch_id=chosen.batch_id, fingerprint=None,
        limit=MAX_SELECTED,
    )  # fmt: skip
    wanted = set(chosen.ids) if chosen.ids is not None else None
    ids = [row["id"] for row in found if wanted is None or row["id"] in wanted]
    selection = chosen.model_dump(mode="json", exclude_none=True)
    row = await api.bulk.submit(
        Kind.RETRY_FAILURES, ids, by=who.name, request_id=request.state.request_id, selection=selection
    )  # fmt: skip
    note.about({"action": row["id"], **selection}, after={"selected": len(ids), "retried": row["changed"]})
    return RetriedFailed(selected=len(ids), retried=row["changed"], action_id=row["id"], status=row["status"])
