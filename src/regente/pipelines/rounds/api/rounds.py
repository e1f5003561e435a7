"""`/api/rounds`: rounds of a league and their matches."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import Id
from regente.api.models.basics import Page, Word
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.pipelines.rounds.api import scrape
from regente.pipelines.rounds.api.models import (
    MatchAttempt,
    MatchDetail,
    RetriedFailed,
    RetryFailed,
    RoundDetail,
    RoundQuery,
)
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.read_models import Round
from regente.redaction import redacted

routes = resource("/api/rounds", "rounds")

MatchId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", examples=["r12-aurora-x-serrano"])
]


@routes.get("", summary="List rounds, newest first")
async def list_rounds(
    query: Annotated[RoundQuery, Query()], api: ApiDep, who: Viewer
) -> Page[Round]:
    found = await RoundOperations(api.regente).find(
        league=query.league,
        number=query.number,
        batch_id=query.batch_id,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more)


@routes.get("/{round_id}", summary="Show a round and its matches")
async def show(round_id: Id, api: ApiDep, who: Viewer) -> RoundDetail:
    operations = RoundOperations(api.regente)
    found, matches = await operations.get(round_id), await operations.matches(round_id)
    return RoundDetail(**found.model_dump(), matches=matches)


@routes.get(
    "/{round_id}/matches/{match_id}",
    summary="Show a match and its failed attempts",
)
async def show_match(round_id: Id, match_id: MatchId, api: ApiDep, who: Viewer) -> MatchDetail:
    found = await RoundOperations(api.regente).match(round_id, match_id)
    failures = [_failed(row) for row in await api.regente.failures(found.task_id)]
    return MatchDetail(**found.model_dump(), failures=failures)


@routes.post(
    "/{round_id}/retry-failed", summary="Retry missing matches of a round", status_code=202
)
async def retry_failed(
    round_id: Id,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
    codes: Annotated[list[Word] | None, Query(max_length=100)] = None,
) -> RetriedFailed:
    """The same as /api/scrape/retry-failed with its `job_id`."""
    return await scrape.retry_failed(api, who, note, RetryFailed(job_id=round_id, codes=codes))


def _failed(row: dict[str, Any]) -> MatchAttempt:
    names = [one["name"] for one in row["snapshots"] or []]
    told = {name: row[name] for name in ("id", "attempt", "at", "code", "message", "step")}
    return MatchAttempt(
        **told, failure_class=row["class"], details=redacted(row["details"]), snapshots=names
    )
