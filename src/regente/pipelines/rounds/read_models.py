"""What people see of rounds and their matches."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.rounds.states import JobState, MatchState

ROUND: dict[str, Any] = {
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
MATCH: dict[str, Any] = {
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


class Round(BaseModel):
    """A round, and what became of its matches: the counts add up to `listed`."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"example": ROUND})

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
    missing: int = Field(description="Neither stored nor has a task.")
    error_code: str | None
    error_message: str | None
    created_at: datetime
    discovered_at: datetime | None


class RoundMatch(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_extra={"example": MATCH})

    match_id: str = Field(description="As the league calls it.")
    status: MatchState
    url: str
    task_id: int
    attempt_count: int
    tries: int = Field(description="Attempts that failed by its own fault.")
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


class MatchEvent(BaseModel):
    minute: int
    kind: str = Field(examples=["goal"])
    side: str = Field(examples=["home"])
    player: str


class MatchStat(BaseModel):
    name: str = Field(examples=["possession"])
    side: str
    value: int


class StoredMatch(RoundMatch):
    """A match with what was stored of it."""

    venue: str | None
    attendance: int | None
    stored_at: datetime | None
    event_list: list[MatchEvent]
    stat_list: list[MatchStat]
