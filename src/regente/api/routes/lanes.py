"""`/api/lanes`: lanes with their limits; set, park and open. A lane's name may contain any
character, so it is in the query or in the body, not in the path."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MAX_PAGE
from regente.api.models.basics import Page, Strict
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.engine.lane_operations import LaneOperations
from regente.engine.lanes import MAX_CONCURRENCY, MAX_NAME_CHARACTERS, MAX_RATE, MAX_WEIGHT
from regente.engine.models import LaneInfo

routes = resource("/api/lanes", "lanes")

LaneName = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS, examples=["shop.example"])
]
Whole = Annotated[int | None, Field(ge=1, le=MAX_CONCURRENCY)]
Rate = Annotated[float | None, Field(gt=0, le=MAX_RATE)]


class LaneQuery(Strict):
    pipeline: str | None = Field(None, max_length=200)
    search: str | None = Field(
        None, min_length=1, max_length=MAX_NAME_CHARACTERS, description="Part of the name."
    )
    after: str | None = Field(
        None, max_length=MAX_NAME_CHARACTERS, description="`next` of the previous page."
    )
    limit: int = Field(100, ge=1, le=MAX_PAGE)


class LaneChange(Strict):
    """Only the given limits change; null is the pipeline's default again."""

    name: LaneName
    pipeline: str | None = Field(
        None, max_length=200, description="Creates the lane, with this pipeline's defaults."
    )
    concurrency: Whole = None
    rate: Rate = None
    burst: Whole = None
    min_rate: Rate = None
    weight: Annotated[int | None, Field(ge=1, le=MAX_WEIGHT)] = None
    breaker: Annotated[int | None, Field(ge=0, le=MAX_CONCURRENCY)] = None


class LaneParking(Strict):
    name: LaneName
    seconds: float | None = Field(
        None, gt=0, le=366 * 86_400, description="Null: until it is opened."
    )
    reason: str = Field("by an operator", max_length=500)


class LaneOpening(Strict):
    name: LaneName


@routes.get("", summary="List lanes by name")
async def list_lanes(
    query: Annotated[LaneQuery, Query()], api: ApiDep, who: Viewer
) -> Page[LaneInfo]:
    found = await api.reads.lanes.list(
        pipeline=query.pipeline, search=query.search, after=query.after, limit=query.limit + 1
    )
    more = found[query.limit - 1].name if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more)


@routes.get("/show", summary="Show a lane", responses={404: {}})
async def show(
    name: Annotated[str, Query(min_length=1, max_length=MAX_NAME_CHARACTERS)],
    api: ApiDep,
    who: Viewer,
) -> LaneInfo:
    return await api.reads.lanes.show(name)


@routes.post("/set", summary="Set limits of a lane", responses={404: {}})
async def set_limits(body: LaneChange, api: ApiDep, who: Operator, note: AuditNoteDep) -> LaneInfo:
    """They count at once, in all runners."""
    limits = {key: getattr(body, key) for key in body.model_fields_set - {"name", "pipeline"}}
    lanes: LaneOperations = api.regente.lanes
    before = {one.name: one for one in await lanes.list(search=body.name)}.get(body.name)
    after = await lanes.set(body.name, pipeline=body.pipeline, by=who.name, **limits)
    note.about(
        {"lane": body.name},
        before=before and {key: getattr(before, key) for key in limits},
        after=limits,
    )
    return after


@routes.post("/park", summary="Park a lane", responses={404: {}})
async def park(body: LaneParking, api: ApiDep, who: Operator, note: AuditNoteDep) -> LaneInfo:
    """None of its tasks starts; running tasks continue."""
    found = await api.regente.lanes.park(
        body.name, seconds=body.seconds, reason=body.reason, by=who.name
    )
    note.about({"lane": body.name}, after={"parked_for_seconds": body.seconds})
    return found


@routes.post("/open", summary="Open a lane", responses={404: {}})
async def open_lane(body: LaneOpening, api: ApiDep, who: Operator, note: AuditNoteDep) -> LaneInfo:
    """Its tasks start again at its full rate, and its breaker is closed."""
    found = await api.regente.lanes.open(body.name, by=who.name)
    note.about({"lane": body.name}, after={"status": found.status})
    return found
