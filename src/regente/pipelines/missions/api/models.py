"""What the API takes and answers about missions, beside the missions themselves."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.models.basics import Named, PageQuery, Strict
from regente.pipelines.missions.args import MediaType, MissionArgs
from regente.pipelines.missions.read_models import MissionFilter, MissionStatus

MAX_MISSIONS = 20_000


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


class MissionCounts(BaseModel):
    """How many missions are in each state, up to 10,000 each."""

    draft: int
    queued: int
    running: int
    completed: int
    failed: int
    canceled: int
    capped: list[MissionStatus] = Field(description="States that have more than that.")
