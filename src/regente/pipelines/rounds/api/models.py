"""Wire models of rounds, matches and the endpoints of their specification."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regente.api.models.basics import PageQuery, SomeId, Strict, Word
from regente.pipelines.rounds.args import League, RoundNumber
from regente.pipelines.rounds.read_models import MATCH, ROUND, Round, RoundMatch, StoredMatch
from regente.pipelines.rounds.states import JobState


class RoundQuery(PageQuery):
    league: League | None = None
    number: RoundNumber | None = None
    batch_id: SomeId | None = None


class RoundDetail(Round):
    model_config = ConfigDict(json_schema_extra={"example": {**ROUND, "matches": [MATCH]}})

    matches: list[RoundMatch]


class MatchAttempt(BaseModel):
    """The error as JSON. Its snapshots are at /api/failures/…."""

    id: int
    attempt: int
    at: datetime
    failure_class: str
    code: str
    message: str
    step: str | None
    details: Any
    snapshots: list[str] = Field(examples=[["page.html"]])


class MatchDetail(StoredMatch):
    failures: list[MatchAttempt]


class StartScrape(Strict):
    """A round to scrape; a round is started once."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"league": "brasileirao-2025", "round": 12}}
    )

    league: League = Field(examples=["brasileirao-2025"])
    round: RoundNumber = Field(examples=[12])
    refresh: bool = Field(
        False,
        strict=True,
        description="Read the page of a known round again, for matches moved into it.",
    )


class StartedScrape(BaseModel):
    job_id: int = Field(description="The round's id: GET /api/rounds/{job_id}.")
    task_id: int | None
    batch_id: int | None
    league: str
    round: int
    status: JobState


class RetryFailed(Strict):
    """What to retry; by default everything that is missing, of all rounds."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"job_id": 1, "codes": ["HTTP_503", "HTTP_TIMEOUT"]}}
    )

    job_id: SomeId | None = Field(None, description="Only this round.")
    codes: list[Word] | None = Field(
        None, min_length=1, max_length=100, description="Only failures with one of these codes."
    )


class RetriedFailed(BaseModel):
    selected: int = Field(description="Matches and pages that are missing.")
    retried: int = Field(description="Tasks that were queued.")
    task_ids: list[int]
