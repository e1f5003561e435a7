"""Wire models of missions: requests, filters and counts."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.models.basics import Named, PageQuery, Strict
from regente.pipelines.missions.args import MediaType, MissionArgs
from regente.pipelines.missions.read_models import MissionFilter, MissionStatus

MAX_MISSIONS = 20_000


class MissionQuery(MissionFilter, PageQuery):
    count: bool = Field(False, description="Count the matching missions, up to 10,000.")


class MissionSelection(Named):
    filter: MissionFilter | None = None


class MissionRange(Strict):
    """One mission for each combination of days, media types and groups of languages."""

    date_start: date
    date_end: date
    media_types: list[MediaType] = Field(min_length=1, max_length=3, examples=[["video", "image"]])
    languages: list[Annotated[list[str], Field(min_length=1, max_length=20)]] = Field(
        min_length=1,
        max_length=100,
        description="Each group of languages has its own missions.",
        examples=[[["pt"], ["es", "en"]]],
    )
    days_each: int = Field(1, ge=1, le=3660, description="Days of one mission.")


class NewMissions(Strict):
    """Either `missions`, or a `range` of them."""

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

    missions: list[MissionArgs] | None = Field(
        None, min_length=1, max_length=MAX_MISSIONS, fail_fast=True
    )
    range: MissionRange | None = None
    queue: bool = Field(False, strict=True, description="Queue the missions; else they are drafts.")
    dry_run: bool = Field(False, strict=True, description="Only count the missions.")

    @model_validator(mode="after")
    def _one_of_both(self) -> NewMissions:
        if (self.missions is None) == (self.range is None):
            raise ValueError("give either missions or a range")
        return self


class CreatedMissions(BaseModel):
    count: int = Field(examples=[62])
    ids: list[int] = Field(description="Empty after a dry run.", examples=[[41, 42]])
    dry_run: bool = False


class MissionCounts(BaseModel):
    """Missions by status, counted up to 10,000 each."""

    draft: int
    queued: int
    running: int
    completed: int
    failed: int
    canceled: int
    capped: list[MissionStatus] = Field(description="Statuses with more missions than counted.")
