"""What all resources share: pages, selections, the answer to an action."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.limits import MAX_ID, MAX_IDS, MAX_PAGE

T = TypeVar("T")

TaskStatus = Literal["draft", "queued", "running", "completed", "failed", "canceled", "skipped"]
SomeId = Annotated[int, Field(ge=1, le=MAX_ID)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """What comes in: a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(Strict):
    cursor: str | None = Field(
        None, pattern=r"^[0-9]{1,19}(-[0-9]{1,19})?$", description="`next` of the page before."
    )
    limit: int = Field(100, ge=1, le=MAX_PAGE, description=f"How many at once, at most {MAX_PAGE}.")

    @property
    def before_id(self) -> int | None:
        return None if self.cursor is None else min(int(self.cursor.split("-")[0]), MAX_ID)


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = Field(
        None, description="The cursor of the next page; null on the last one.", examples=["41"]
    )


class CountedPage(Page[T], Generic[T]):
    total: int | None = Field(
        None, description="How many match, when `count` was asked for.", examples=[10000]
    )
    total_is_capped: bool = Field(False, description="There are more than `total`.")


class Selection(Strict):
    """Which ones: `ids`, or everything that a filter leaves. `limit` takes the first so many."""

    ids: list[SomeId] | None = Field(None, min_length=1, max_length=MAX_IDS, examples=[[41, 42]])
    limit: int | None = Field(
        None, ge=1, le=1_000_000, description="Only the first so many, oldest first."
    )
    dry_run: bool = Field(False, strict=True, description="Only say what it would do.")
    reason: str | None = Field(None, max_length=500, examples=["the target is back"])


class Named(Selection):
    """Only for the check that is the same for every filter."""

    filter: Any = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Named:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or a filter")
        return self


class Action(BaseModel):
    """A bulk action: done at once when it is small, else in the background."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 7,
                "kind": "missions.queue",
                "by": "ana",
                "status": "running",
                "total": 12000,
                "done": 4500,
                "changed": 4498,
                "reason": None,
                "error": None,
                "filter": {"statuses": ["draft"]},
                "created_at": "2025-01-15T10:00:00Z",
                "finished_at": None,
            }
        }
    )

    id: int
    kind: str
    by: str
    status: Literal["running", "completed", "failed"]
    total: int = Field(description="How many were selected.")
    done: int = Field(description="How many have been dealt with.")
    changed: int = Field(description="How many of them it applied to.")
    reason: str | None
    error: str | None
    filter: Any = None
    created_at: datetime
    finished_at: datetime | None


class DryRun(BaseModel):
    """What a bulk action would do."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "dry_run": True,
                "kind": "missions.queue",
                "total": 3,
                "by_status": {"draft": 2, "queued": 1},
                "would_change": 2,
                "missing": 0,
                "in_background": False,
                "sample": [40, 41, 42],
            }
        }
    )

    dry_run: Literal[True] = True
    kind: str
    total: int
    by_status: dict[str, int]
    would_change: int
    missing: int = Field(description="Ids that do not exist, or are of another kind.")
    in_background: bool
    sample: list[int]


class Why(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "code": "NO_WORKER",
                "summary": "No worker is active: add or activate one.",
                "details": {"ahead": 0},
            }
        }
    )

    code: str
    summary: str
    details: dict[str, Any]


class Done(BaseModel):
    """An action on one thing."""

    id: int | str
    status: str = Field(examples=["canceled"])
