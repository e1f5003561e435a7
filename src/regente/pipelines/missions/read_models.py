"""What people see of missions (the original specification's columns, and a few more), and the
filters that choose among them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.missions.args import MediaType

MissionStatus = Literal["draft", "queued", "running", "completed", "failed", "canceled"]
MISSION_STATUSES: tuple[str, ...] = get_args(MissionStatus)
Checkpoint = Literal["atribuido", "extracao", "armazenamento", "finalizado"]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class Mission(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "id": 42,
                "date_start": "2025-01-15",
                "date_end": "2025-01-15",
                "media_type": "video",
                "languages": ["pt"],
                "status": "running",
                "checkpoint": "extracao",
                "worker_id": "wk_0f3a",
                "worker_name": "w1",
                "worker_job_id": "scrape_3c434995",
                "worker_data_url": None,
                "proxy_used": "proxy-br-1",
                "writer_job_id": None,
                "ads_count": None,
                "success_count": None,
                "failed_count": None,
                "error_code": None,
                "error_message": None,
                "retry_count": 0,
                "attempt": 1,
                "progress": 0.4,
                "canceling": False,
                "waits_until": None,
                "created_at": "2025-01-15T10:00:00Z",
                "queued_at": "2025-01-15T10:00:01Z",
                "started_at": "2025-01-15T10:00:46Z",
                "heartbeat_at": "2025-01-15T10:05:00Z",
                "finished_at": None,
            }
        },
    )

    id: int
    date_start: date
    date_end: date
    media_type: str
    languages: list[str]
    status: MissionStatus
    checkpoint: Checkpoint | None
    worker_id: str | None
    worker_name: str | None
    worker_job_id: str | None
    worker_data_url: str | None
    proxy_used: str | None
    writer_job_id: str | None
    ads_count: int | None
    success_count: int | None
    failed_count: int | None
    error_code: str | None
    error_message: str | None
    retry_count: int
    attempt: int
    progress: float | None
    canceling: bool = Field(description="Its worker is being told to stop.")
    waits_until: datetime | None = Field(description="The rate limit of the target ends then.")
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None
    result: dict[str, Any] | None = Field(exclude=True)
    """What the task returned: for programs in this process."""


class MissionFilter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    statuses: list[MissionStatus] | None = Field(None, max_length=6, examples=[["draft"]])
    checkpoint: Checkpoint | None = None
    media_type: MediaType | None = None
    language: str | None = Field(None, max_length=20, examples=["pt"])
    date_from: date | None = Field(None, description="Missions whose first day is this or later.")
    date_to: date | None = Field(None, description="Missions whose first day is this or earlier.")
    worker_id: Word | None = None
    proxy: Word | None = Field(None, description="The name of the proxy that it went through.")
    error_code: Word | None = Field(None, examples=["ERROR203"])

    @property
    def by_day(self) -> bool:
        """True if the filter has a range of days and, beside it, only values that most missions
        have; rare values have indexes of their own."""
        is_range = self.date_from != self.date_to
        common = self.statuses is None or "completed" in self.statuses
        rare = self.worker_id or self.proxy or self.error_code
        return is_range and common and not rare and self.checkpoint in (None, "finalizado")

    def params(self) -> dict[str, Any]:
        """The parameters of the statements in `lists.sql`."""
        one_day = self.date_from is not None and self.date_from == self.date_to
        first, last = (day.isoformat() if day else None for day in (self.date_from, self.date_to))
        # What a worker or a proxy had to do on some days is looked up where all of that is known:
        # in one index.
        by_run = self.worker_id is not None or self.proxy is not None
        return self._status_params() | {
            "checkpoint": self.checkpoint,
            "media_type": self.media_type,
            "language": self.language,
            "worker_id": self.worker_id,
            "proxy": self.proxy,
            "error_code": self.error_code,
            "day": first if one_day else None,
            "date_from": None if one_day else first,
            "date_to": None if one_day else last,
            "run_from": first if by_run else None,
            "run_to": last if by_run else None,
        }

    def _status_params(self) -> dict[str, Any]:
        """To the engine, a mission between two attempts is queued; to people it is running."""
        wanted: set[str] = set(self.statuses or ())
        running, queued = "running" in wanted, "queued" in wanted
        only_running = wanted == {"running"}
        engine = sorted(wanted | ({"queued"} if running else set()))
        return {
            "engine_statuses": engine if wanted and not only_running else None,
            "only_running": only_running,
            "begun": running and not queued,
            "not_begun": queued and not running,
        }


class Orchestrator(BaseModel):
    model_config = ConfigDict(frozen=True)

    state: Literal["closed", "open", "draining", "halting"]
    stopped_by: str | None = Field(
        description="Who stopped it. Queued missions do not open a stopped orchestrator."
    )
    opened_at: datetime | None
    closed_at: datetime | None
    any_queued: bool
    any_running: bool


class TimelineEvent(BaseModel):
    timestamp: datetime
    event: str = Field(examples=["scrape_completed"])
    details: dict[str, Any] | None = Field(
        examples=[{"worker_job_id": "scrape_3c434995", "ads_count": 1500}]
    )


class FailedItem(BaseModel):
    """A row that the writer could not store."""

    index: int = Field(examples=[42])
    data: Any = Field(examples=[{"id": "ad42"}])
    error: str = Field(examples=["duplicate key violates unique constraint"])
