"""`/api/scrape`: the endpoints of the rounds' specification."""

from __future__ import annotations

from regente.api.access.roles import Operator
from regente.api.audit import AuditNoteDep
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.pipelines.rounds.api.models import (
    RetriedFailed,
    RetryFailed,
    StartedScrape,
    StartScrape,
)
from regente.pipelines.rounds.operations import RoundOperations

routes = resource("/api/scrape", "scrape")

SAMPLE = 1000


@routes.post("", summary="Start a round", status_code=202)
async def start(body: StartScrape, api: ApiDep, who: Operator, note: AuditNoteDep) -> StartedScrape:
    """Starts the round, durably, unless it was started before."""
    found = await RoundOperations(api.regente).start(body.league, body.round, refresh=body.refresh)
    note.about(
        {"job_id": found.id, "league": found.league, "round": found.number},
        after={"status": found.status},
    )
    return StartedScrape(
        job_id=found.id,
        task_id=found.task_id,
        batch_id=found.batch_id,
        league=found.league,
        round=found.number,
        status=found.status,
    )


@routes.post(
    "/retry-failed",
    summary="Retry failed and missing matches",
    status_code=202,
    responses={404: {}},  # `job_id` may name a round that does not exist
)
async def retry_failed(
    api: ApiDep, who: Operator, note: AuditNoteDep, body: RetryFailed | None = None
) -> RetriedFailed:
    """Retries matches that failed, were skipped or canceled or are missing, and failed pages."""
    chosen = body or RetryFailed()
    done = await RoundOperations(api.regente).retry_failed(
        chosen.job_id, codes=chosen.codes, by=who.name
    )
    target = chosen.model_dump(mode="json", exclude_none=True) or {"job_id": "all"}
    note.about(target, after={"selected": done.selected, "retried": len(done.task_ids)})
    return RetriedFailed(
        selected=done.selected, retried=len(done.task_ids), task_ids=done.task_ids[:SAMPLE]
    )
