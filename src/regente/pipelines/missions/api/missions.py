"""`/api/missions`: drafts, queued, running and finished missions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk import requests as bulk
from regente.api.limits import COUNT_CAP, MAX_PAGE, Id
from regente.api.models.basics import Action, CountedPage, Done, DryRun
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.models import Why
from regente.pipelines.missions.api.bulk import MissionAction
from regente.pipelines.missions.api.models import (
    CreatedMissions,
    MissionCounts,
    MissionQuery,
    MissionSelection,
    NewMissions,
)
from regente.pipelines.missions.args import MissionArgs, missions_of
from regente.pipelines.missions.operations import MissionOperations
from regente.pipelines.missions.read_models import FailedItem, Mission, TimelineEvent

routes = resource("/api/missions", "missions")


@routes.get("", summary="List missions, newest first")
async def list_missions(
    query: Annotated[MissionQuery, Query()], api: ApiDep, who: Viewer
) -> CountedPage[Mission]:
    missions = _operations(api)
    found = await missions.find(query, before_id=query.before_id, limit=query.limit + 1)
    page = CountedPage[Mission](items=found[: query.limit], next=None)
    if len(found) > query.limit:
        page.next = str(found[query.limit - 1].id)
    if query.count:
        total = await missions.count(query, COUNT_CAP)
        page.total, page.total_is_capped = min(total, COUNT_CAP), total > COUNT_CAP
    return page


@routes.post("", summary="Create one or many missions", status_code=201)
async def create(
    body: NewMissions, api: ApiDep, who: Operator, note: AuditNoteDep
) -> CreatedMissions:
    """Creates the given missions, or a range of days × media types × languages; all or none."""
    missions = await asyncio.to_thread(_requested, body)  # a range may hold 100,000
    if body.dry_run:
        note.skip()
        return CreatedMissions(count=len(missions), ids=[], dry_run=True)
    ids = await api.regente.missions.create(missions, queue=body.queue, by=who.name)
    note.about(
        {"first": ids[0], "last": ids[-1]}, after={"created": len(ids), "queued": body.queue}
    )
    return CreatedMissions(count=len(ids), ids=ids)


@routes.get("/counts", summary="Count missions by status")
async def counts(api: ApiDep, who: Viewer) -> MissionCounts:
    """Missions that wait for another attempt count as running."""
    found = await _operations(api).counts(COUNT_CAP)
    capped = [status for status, count in found.items() if count > COUNT_CAP]
    return MissionCounts(
        **{status: min(count, COUNT_CAP) for status, count in found.items()}, capped=capped
    )


@routes.post("/queue", summary="Queue missions", responses={202: {"model": Action}})
async def queue(
    body: MissionSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """Queues drafts. Opens the orchestrator, unless an operator stopped it."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        MissionAction.QUEUE,
        body,
        partial(_operations(api).ids, body.filter),
    )


@routes.post("/cancel", summary="Cancel missions", responses={202: {"model": Action}})
async def cancel_many(
    body: MissionSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        MissionAction.CANCEL,
        body,
        partial(_operations(api).ids, body.filter),
    )


@routes.post("/retry", summary="Retry missions", responses={202: {"model": Action}})
async def retry_many(
    body: MissionSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """Requeues failed and canceled missions with all their retries; extracted ads are kept."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        MissionAction.RETRY,
        body,
        partial(_operations(api).ids, body.filter),
    )


@routes.get("/{mission_id}", summary="Show a mission")
async def show(mission_id: Id, api: ApiDep, who: Viewer) -> Mission:
    return await _operations(api).get(mission_id)


@routes.post("/{mission_id}/queue", summary="Queue a mission")
async def queue_one(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Mission:
    before = await _operations(api).get(mission_id)
    await api.regente.missions.queue([mission_id], by=who.name)
    return await _changed(api, before, note)


@routes.post("/{mission_id}/cancel", summary="Cancel a mission")
async def cancel(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Done:
    """`canceled` if it waited; `canceling` if its worker was told to stop."""
    before = await _operations(api).get(mission_id)
    status = await api.regente.missions.cancel(mission_id, by=who.name)
    note.about({"mission_id": mission_id}, before=_state(before), after={"status": status})
    return Done(id=mission_id, status=status)


@routes.post("/{mission_id}/retry", summary="Retry a mission")
async def retry(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Mission:
    before = await _operations(api).get(mission_id)
    await api.regente.missions.retry(mission_id, by=who.name)
    return await _changed(api, before, note)


@routes.get("/{mission_id}/timeline", summary="Show the timeline of a mission")
async def timeline(mission_id: Id, api: ApiDep, who: Viewer) -> list[TimelineEvent]:
    """Its log with the events of its sessions, oldest first."""
    return [TimelineEvent(**row) for row in await api.regente.missions.timeline(mission_id)]


@routes.get("/{mission_id}/why", summary="Explain why a mission is not running")
async def why(mission_id: Id, api: ApiDep, who: Viewer) -> Why:
    return await api.regente.missions.why(mission_id)


@routes.get("/{mission_id}/failed-items", summary="List rows that the writer could not store")
async def failed_items(
    mission_id: Id, api: ApiDep, who: Viewer, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100
) -> list[FailedItem]:
    await _operations(api).get(mission_id)
    return [FailedItem(**row) for row in await api.regente.missions.failed_items(mission_id, limit)]


def _requested(body: NewMissions) -> list[MissionArgs]:
    if body.range is None:
        return list(body.missions or [])
    days = body.range
    return missions_of(
        days.date_start, days.date_end, days.media_types, days.languages, days_each=days.days_each
    )


def _operations(api: Api) -> MissionOperations:
    return MissionOperations(api.regente, api.database)


async def _changed(api: Api, before: Mission, note: AuditNoteDep) -> Mission:
    after = await _operations(api).get(before.id)
    note.about({"mission_id": before.id}, before=_state(before), after=_state(after))
    return after


def _state(mission: Mission) -> dict[str, Any]:
    return {"status": mission.status, "checkpoint": mission.checkpoint}
