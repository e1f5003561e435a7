"""Missions."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.models.basics import Named, PageQuery, Strict, Word
from regente.pipelines.missions.args import MediaType, MissionArgs

MissionStatus = Literal["draft", "queued", "running", "completed", "failed", "canceled"]
Checkpoint = Literal["atribuido", "extracao", "armazenamento", "finalizado"]
MAX_MISSIONS = 20_000


class Mission(BaseModel):
    model_config = ConfigDict(
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
        }
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
    waits_until: datetime | None = Field(description="The target asked for patience until then.")
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None


class MissionFilter(Strict):
    statuses: list[MissionStatus] | None = Field(None, max_length=6, examples=[["draft"]])
    checkpoint: Checkpoint | None = None
    media_type: MediaType | None = None
    language: str | None = Field(None, max_length=20, examples=["pt"])
    date_from: date | None = Field(None, description="Missions whose first day is this or later.")
    date_to: date | None = Field(None, description="Missions whose first day is this or earlier.")
    worker_id: Word | None = None
    proxy: Word | None = Field(None, description="The name of the proxy that it went through.")
    error_code: Word | None = Field(None, examples=["ERROR203"])


class MissionQuery(MissionFilter, PageQuery):
    count: bool = Field(False, description="Also say how many match, up to 10,000.")


class MissionSelection(Named):
    filter: MissionFilter | None = None


class MissionRange(Strict):
    """A range of days × media types × groups of languages makes one mission for
    each combination."""

    date_start: date
    date_end: date
    media_types: list[MediaType] = Field(min_length=1, max_length=3, examples=[["video", "image"]])
    languages: list[Annotated[list[str], Field(min_length=1, max_length=20)]] = Field(
        min_length=1,
        max_length=100,
        description="Each group goes into missions of its own.",
        examples=[[["pt"], ["es", "en"]]],
    )
    days_each: int = Field(1, ge=1, le=3660, description="How many days one mission covers.")


class NewMissions(Strict):
    """Either `missions`, each as it is, or a `range` that makes many."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "range": {
                        "date_start": "2025-01-01",
                        "date_end": "2025-01-31",
                        "media_types": ["video", "image"],
                        "languages": [["pt"]],
                    },
                    "queue": True,
                },
                {
                    "missions": [
                        {
                            "date_start": "2025-01-15",
                            "date_end": "2025-01-15",
                            "media_type": "all",
                            "languages": ["pt", "en"],
                        }
                    ]
                },
            ]
        }
    )

    missions: list[MissionArgs] | None = Field(None, min_length=1, max_length=MAX_MISSIONS)
    range: MissionRange | None = None
    queue: bool = Field(
        False, strict=True, description="Straight into the queue; else they wait in the bank."
    )
    dry_run: bool = Field(False, strict=True, description="Only say how many it would make.")

    @model_validator(mode="after")
    def _one_of_both(self) -> NewMissions:
        if (self.missions is None) == (self.range is None):
            raise ValueError("give either missions or a range")
        return self


class CreatedMissions(BaseModel):
    count: int = Field(examples=[62])
    ids: list[int] = Field(description="Empty after a dry run.", examples=[[41, 42]])
    dry_run: bool = False


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


class MissionCounts(BaseModel):
    """How many missions are in each state, up to 10,000 each."""

    draft: int
    queued: int
    running: int
    completed: int
    failed: int
    canceled: int
    capped: list[MissionStatus] = Field(description="States that have more than that.")
