"""Wire models of rounds, matches and the endpoints of their specification."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regente.api.models.basics import PageQuery, SomeId, Strict, Word
from regente.pipelines.rounds.args import League, RoundNumber
from regente.pipelines.rounds.states import JobState, MatchState

_ROUND: dict[str, Any] = {
    "id": 1,
    "league": "brasileirao-2025",
    "number": 12,
    "status": "INCOMPLETE",
    "task_id": 41,
    "batch_id": 7,
    "listed": 10,
    "finished": 9,
    "pending": 0,
    "running": 0,
    "failed": 1,
    "skipped": 0,
    "canceled": 0,
    "missing": 0,
    "error_code": None,
    "error_message": None,
    "created_at": "2025-06-15T10:00:00Z",
    "discovered_at": "2025-06-15T10:00:01Z",
}
_MATCH: dict[str, Any] = {
    "match_id": "r12-aurora-x-serrano",
    "status": "FAILED",
    "url": "https://league.example/brasileirao-2025/matches/r12-aurora-x-serrano",
    "task_id": 42,
    "attempt_count": 1,
    "tries": 1,
    "run_at": "2025-06-15T10:00:01Z",
    "finished_at": "2025-06-15T10:00:02Z",
    "error_code": "LAYOUT_CHANGED",
    "error_message": "the page has no article#match",
    "reason": None,
    "kickoff_at": None,
    "home": None,
    "home_goals": None,
    "away": None,
    "away_goals": None,
    "events": None,
    "stats": None,
}


class RoundQuery(PageQuery):
    league: League | None = None
    number: RoundNumber | None = None
    batch_id: SomeId | None = None


class Round(BaseModel):
    """A round with the counts of its matches, which add up to `listed`."""

    model_config = ConfigDict(json_schema_extra={"example": _ROUND})

    id: int = Field(description="The `job_id` of /api/scrape.")
    league: str
    number: int
    status: JobState
    task_id: int | None = Field(description="The task that reads the round's page.")
    batch_id: int | None
    listed: int = Field(description="Matches that the round's page lists.")
    finished: int = Field(description="Matches that are stored.")
    pending: int
    running: int
    failed: int
    skipped: int
    canceled: int
    missing: int = Field(description="Matches that are not stored and have no task.")
    error_code: str | None
    error_message: str | None
    created_at: datetime
    discovered_at: datetime | None


class RoundMatch(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _MATCH})

    match_id: str = Field(description="The match's id at the league.")
    status: MatchState
    url: str
    task_id: int
    attempt_count: int
    tries: int = Field(description="Attempts that failed by the task's own fault.")
    run_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    reason: str | None = Field(description="Why it was skipped.")
    kickoff_at: datetime | None
    home: str | None
    home_goals: int | None
    away: str | None
    away_goals: int | None
    events: int | None
    stats: int | None


class RoundDetail(Round):
    model_config = ConfigDict(json_schema_extra={"example": {**_ROUND, "matches": [_MATCH]}})

    matches: list[RoundMatch]


class MatchEvent(BaseModel):
    minute: int
    kind: str = Field(examples=["goal"])
    side: str = Field(examples=["home"])
    player: str


class MatchStat(BaseModel):
    name: str = Field(examples=["possession"])
    side: str
    value: int


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


class MatchDetail(RoundMatch):
    venue: str | None
    attendance: int | None
    stored_at: datetime | None
    event_list: list[MatchEvent]
    stat_list: list[MatchStat]
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
