"""`/api/schedules`: cron schedules with their last and next runs; set, pause, resume and remove. A
schedule's name may contain any character, so it is in the query or in the body, not in the path."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MAX_PAGE
from regente.api.models.basics import Page, Strict
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.enqueue import BY_PIPELINE
from regente.engine.lanes import MAX_NAME_CHARACTERS
from regente.engine.models import ScheduleRun, TaskStatus
from regente.engine.schedule_operations import (
    MAX_JITTER_SECONDS,
    MAX_NEXT_RUNS,
    CatchUp,
    Overlap,
    missing,
)
from regente.redaction import redacted

routes = resource("/api/schedules", "schedules")

ScheduleName = Annotated[str, Field(min_length=1, max_length=200, examples=["nightly"])]
NameQuery = Annotated[str, Query(min_length=1, max_length=200)]


class Schedule(BaseModel):
    name: str
    pipeline: str
    args: Any = Field(description="Of its tasks; fields with secret names are hidden.")
    cron: str = Field(examples=["0 4 * * *"])
    timezone: str
    priority: int
    lane: str | None
    overlap: Overlap = Field(
        description="What a time becomes that comes while the previous run is unfinished."
    )
    catch_up: CatchUp = Field(description="How many of the missed times are run.")
    jitter_seconds: float
    due_as: str | None = Field(description="The argument that gets the run's own time.")
    state: Literal["enabled", "paused", "disabled"] = Field(
        description="`disabled`: its expression or time zone is invalid."
    )
    paused_at: datetime | None
    next_at: datetime = Field(description="The next time, or the first that is not dealt with.")
    last_at: datetime | None
    last_task: int | None
    last_status: TaskStatus | None
    waiting: int = Field(description="Runs that wait for the end of the previous one.")


class ScheduleChange(Strict):
    """The whole schedule; one of the same name is replaced, and stays paused if it is."""

    name: ScheduleName
    pipeline: str = Field(max_length=200)
    cron: str = Field(max_length=500, examples=["0 4 * * *"])
    args: dict[str, Any] = Field(default_factory=dict)
    timezone: str = Field("UTC", max_length=100)
    priority: int = Field(0, ge=-32_768, le=32_767)
    lane: str | None = Field(
        None, max_length=MAX_NAME_CHARACTERS, description="By default the pipeline's own."
    )
    overlap: Overlap = "allow"
    catch_up: CatchUp = "one"
    jitter_seconds: float = Field(0.0, ge=0, le=MAX_JITTER_SECONDS)
    due_as: str | None = Field(
        None, max_length=100, description="The argument that gets the run's own time."
    )


class ScheduleTarget(Strict):
    name: ScheduleName


class ScheduleResumption(Strict):
    name: ScheduleName
    skip_missed: bool = Field(False, description="Run none of the times that came meanwhile.")


class RunsQuery(Strict):
    name: ScheduleName
    before: datetime | None = Field(None, description="`next` of the previous page.")
    limit: int = Field(100, ge=1, le=MAX_PAGE)


class Removed(BaseModel):
    removed: str


@routes.get("", summary="List schedules by name")
async def list_schedules(api: ApiDep, who: Viewer) -> list[Schedule]:
    return [_shown(row) for row in await api.reads.schedules()]


@routes.get("/runs", summary="List the runs of a schedule, the latest first", responses={404: {}})
async def list_runs(
    query: Annotated[RunsQuery, Query()], api: ApiDep, who: Viewer
) -> Page[ScheduleRun]:
    """What became of each of its times."""
    found = await api.reads.schedule_runs(query.name, before=query.before, limit=query.limit + 1)
    more = found[query.limit - 1].due_at if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more and more.isoformat())


@routes.get("/next", summary="Show the next times of a schedule", responses={404: {}})
async def next_runs(
    name: NameQuery,
    api: ApiDep,
    who: Viewer,
    count: Annotated[int, Query(ge=1, le=MAX_NEXT_RUNS)] = 5,
) -> list[datetime]:
    """None while it is paused or disabled."""
    return await api.reads.next_runs(name, count)


@routes.post("/set", summary="Add or replace a schedule", responses={404: {}})
async def put(body: ScheduleChange, api: ApiDep, who: Operator, note: AuditNoteDep) -> Schedule:
    given = body.model_dump(exclude={"jitter_seconds", "lane"})
    lane = BY_PIPELINE if body.lane is None else body.lane
    await api.regente.schedule(**given, lane=lane, jitter=body.jitter_seconds)
    note.about({"schedule": body.name}, after=body.model_dump(exclude={"args", "name"}))
    return await _find(api, body.name)


@routes.post("/pause", summary="Pause a schedule", responses={404: {}})
async def pause(body: ScheduleTarget, api: ApiDep, who: Operator, note: AuditNoteDep) -> Schedule:
    """It queues no more tasks; those that it has queued stay."""
    await api.regente.pause_schedule(body.name, by=who.name)
    note.about({"schedule": body.name}, after={"state": "paused"})
    return await _find(api, body.name)


@routes.post("/resume", summary="Resume a schedule", responses={404: {}})
async def resume(
    body: ScheduleResumption, api: ApiDep, who: Operator, note: AuditNoteDep
) -> Schedule:
    """Of the times that came meanwhile those of `catch_up` are run."""
    await api.regente.resume_schedule(body.name, skip_missed=body.skip_missed, by=who.name)
    note.about({"schedule": body.name}, after={"skip_missed": body.skip_missed})
    return await _find(api, body.name)


@routes.post("/remove", summary="Remove a schedule", responses={404: {}})
async def remove(body: ScheduleTarget, api: ApiDep, who: Operator, note: AuditNoteDep) -> Removed:
    """With the record of its runs. Its tasks stay."""
    await api.regente.unschedule(body.name)
    note.about({"schedule": body.name}, after={"removed": True})
    return Removed(removed=body.name)


async def _find(api: Api, name: str) -> Schedule:
    for row in await api.regente.schedules():
        if row["name"] == name:
            return _shown(row)
    raise missing(name)


def _shown(row: dict[str, Any]) -> Schedule:
    return Schedule(**{**row, "args": redacted(row["args"])})
