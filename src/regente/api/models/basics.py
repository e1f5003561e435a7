"""Wire models that resources share: pages, selections, bulk actions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from regente.api.limits import MAX_ID, MAX_IDS, MAX_PAGE

T = TypeVar("T")

SomeId = Annotated[int, Field(ge=1, le=MAX_ID)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


MAX_NAMES = 200
"""Of fields in one object: more are no mistake, and each would be an error of its own."""


class Strict(BaseModel):
    """A request model: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_booleans_and_many_names(cls, data: Any) -> Any:
        """`true` is not the id 1, also in a list."""
        if not isinstance(data, dict):
            return data
        if len(data) > MAX_NAMES:
            raise ValueError(f"an object here has at most {MAX_NAMES} fields")
        for name, field in cls.model_fields.items():
            given = data.get(field.alias or name)
            if _has(given, bool) and not _takes(field.annotation, bool):
                raise ValueError(f"{name} takes no true or false")
            if _has(given, dict, MAX_NAMES) and not _takes(field.annotation, dict):
                raise ValueError(f"an object in {name} has at most {MAX_NAMES} fields")
        return data


def _has(value: Any, kind: type, more_than: int = -1) -> bool:
    """Whether it is, or a list of it has, a value of this kind (with so many parts)."""
    return any(
        isinstance(one, kind) and (not isinstance(one, dict) or len(one) > more_than)
        for one in (value if isinstance(value, list) else (value,))
    )


def _takes(annotation: Any, kind: type) -> bool:
    """Whether a field takes any value of this kind."""
    if annotation in (kind, Any, JsonValue) or get_origin(annotation) is kind:
        return True
    return any(_takes(one, kind) for one in get_args(annotation))


class PageQuery(Strict):
    cursor: str | None = Field(
        None, pattern=r"^[0-9]{1,19}(-[0-9]{1,19})?$", description="`next` of the previous page."
    )
    limit: int = Field(100, ge=1, le=MAX_PAGE, description=f"Items per page, at most {MAX_PAGE}.")

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
        None, description="How many match; only with `count`.", examples=[10000]
    )
    total_is_capped: bool = Field(False, description="More than `total` match.")


class Selection(Strict):
    """The items of a bulk action: `ids`, or all that match a filter; `limit` takes the first."""

    ids: list[SomeId] | None = Field(
        None, min_length=1, max_length=MAX_IDS, fail_fast=True, examples=[[41, 42]]
    )
    limit: int | None = Field(
        None, ge=1, le=1_000_000, description="Maximum number of items, oldest first."
    )
    dry_run: bool = Field(False, strict=True, description="Only report what the action would do.")
    reason: str | None = Field(None, max_length=500, examples=["the target is back"])


class Named(Selection):
    """A selection with a filter; checks that either ids or a filter are given."""

    filter: Any = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Named:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or a filter")
        return self


class Action(BaseModel):
    """A bulk action: a small one is finished in the response, a large one in the background."""

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
                "changes": None,
                "created_at": "2025-01-15T10:00:00Z",
                "finished_at": None,
            }
        }
    )

    id: int
    kind: str
    by: str
    status: Literal["running", "completed", "failed"]
    total: int = Field(description="Selected items.")
    done: int = Field(description="Processed items.")
    changed: int = Field(description="Processed items that it changed.")
    reason: str | None
    error: str | None
    filter: Any = None
    changes: Any = Field(None, description="What it gives the items, if it changes tasks.")
    created_at: datetime
    finished_at: datetime | None


class DryRun(BaseModel):
    """What a bulk action would change."""

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


class Done(BaseModel):
    """The result of an action on one item."""

    id: int | str
    status: str = Field(examples=["canceled"])
