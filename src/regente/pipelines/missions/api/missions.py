"""Missions: the bank and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk import requests as bulk
from regente.api.bulk.actions import ActionKind
from regente.api.limits import COUNT_CAP, MAX_PAGE, Id
from regente.api.models.basics import Action, CountedPage, Done, DryRun, Why
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.errors import NotFound
from regente.pipelines.missions.api.models import (
    CreatedMissions,
    FailedItem,
    Mission,
    MissionCounts,
    MissionFilter,
    MissionQuery,
    MissionSelection,
    NewMissions,
    TimelineEvent,
)
from regente.pipelines.missions.args import MissionArgs, missions_of

routes = resource("/api/missions", "missions")


@routes.get("", summary="List missions, newest first")
async def list_missions(
    query: Annotated[MissionQuery, Query()], api: ApiDep, who: Viewer
) -> CountedPage[Mission]:
    params = filter_params(query)
    name = "list_missions_by_day" if goes_by_day(query) else "list_missions"
    rows = await QUERIES.fetch_all(
        api.database, name, id=None, before_id=query.before_id, limit=query.limit + 1, **params
    )
    page = CountedPage[Mission](items=rows[: query.limit], next=None)
    if len(rows) > query.limit:
        page.next = str(rows[query.limit - 1]["id"])
    if query.count:
        counted = await QUERIES.fetch_one(api.database, "count_missions", cap=COUNT_CAP, **params)
        total = counted["count"] if counted else 0
        page.total, page.total_is_capped = min(total, COUNT_CAP), total > COUNT_CAP
    return page


@routes.post("", summary="Create one or many missions", status_code=201)
async def create(
    body: NewMissions, api: ApiDep, who: Operator, note: AuditNoteDep
) -> CreatedMissions:
    """Either each as it is, or a range of days × media types × languages. All of them or none."""
    missions = _wanted(body)
    if body.dry_run:
        note.only_looked()
        return CreatedMissions(count=len(missions), ids=[], dry_run=True)
    ids = await api.regente.missions.create(missions, queue=body.queue, by=who.name)
    note.about(
        {"first": ids[0], "last": ids[-1]}, after={"created": len(ids), "queued": body.queue}
    )
    return CreatedMissions(count=len(ids), ids=ids)


@routes.get("/counts", summary="Count missions by state")
async def counts(api: ApiDep, who: Viewer) -> MissionCounts:
    """Those that wait for another attempt count as running."""
    found = {
        row["status"]: row["count"]
        for row in await QUERIES.fetch_all(api.database, "missions_by_state", cap=COUNT_CAP)
    }
    between = await QUERIES.fetch_one(api.database, "missions_between_attempts", cap=COUNT_CAP)
    waiting = between["count"] if between else 0
    found["running"] += waiting
    if found["queued"] <= COUNT_CAP:
        found["queued"] = max(0, found["queued"] - waiting)
    capped = [status for status, count in found.items() if count > COUNT_CAP]
    return MissionCounts(
        **{status: min(count, COUNT_CAP) for status, count in found.items()}, capped=capped
    )


@routes.post("/queue", summary="Queue many", responses={202: {"model": Action}})
async def queue(
    body: MissionSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """From the bank into the queue. Opens the orchestrator, unless somebody stopped it."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.QUEUE_MISSIONS,
        body,
        "select_missions",
        _chosen(body),
    )


@routes.post("/cancel", summary="Cancel many", responses={202: {"model": Action}})
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
        ActionKind.CANCEL_MISSIONS,
        body,
        "select_missions",
        _chosen(body),
    )


@routes.post("/retry", summary="Retry many", responses={202: {"model": Action}})
async def retry_many(
    body: MissionSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """Failed and canceled missions begin again with a full budget; what was extracted is not
    extracted again."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.RETRY_MISSIONS,
        body,
        "select_missions",
        _chosen(body),
    )


@routes.get("/{mission_id}", summary="Show a mission")
async def show(mission_id: Id, api: ApiDep, who: Viewer) -> Mission:
    return await _mission(api, mission_id)


@routes.post("/{mission_id}/queue", summary="Queue one")
async def queue_one(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Mission:
    before = await _mission(api, mission_id)
    await api.regente.missions.queue([mission_id], by=who.name)
    return await _changed(api, before, note)


@routes.post("/{mission_id}/cancel", summary="Cancel one")
async def cancel(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Done:
    """`canceled` when it waited; `canceling` when its worker is being told."""
    before = await _mission(api, mission_id)
    status = await api.regente.missions.cancel(mission_id, by=who.name)
    note.about({"mission_id": mission_id}, before=_state(before), after={"status": status})
    return Done(id=mission_id, status=status)


@routes.post("/{mission_id}/retry", summary="Retry one")
async def retry(mission_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Mission:
    before = await _mission(api, mission_id)
    await api.regente.missions.retry(mission_id, by=who.name)
    return await _changed(api, before, note)


@routes.get("/{mission_id}/timeline", summary="Timeline of a mission")
async def timeline(mission_id: Id, api: ApiDep, who: Viewer) -> list[TimelineEvent]:
    """Its log, with the events of the sessions that it ran on, oldest first."""
    return [TimelineEvent(**row) for row in await api.regente.missions.timeline(mission_id)]


@routes.get("/{mission_id}/why", summary="Why is it not running?")
async def why(mission_id: Id, api: ApiDep, who: Viewer) -> Why:
    found = await api.regente.missions.why(mission_id)
    return Why(code=found.code, summary=found.summary, details=found.details)


@routes.get("/{mission_id}/failed-items", summary="Rows that the writer could not store")
async def failed_items(
    mission_id: Id, api: ApiDep, who: Viewer, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100
) -> list[FailedItem]:
    await _mission(api, mission_id)
    return [FailedItem(**row) for row in await api.regente.missions.failed_items(mission_id, limit)]


def filter_params(chosen: MissionFilter) -> dict[str, Any]:
    one_day = chosen.date_from is not None and chosen.date_from == chosen.date_to
    first, last = (day.isoformat() if day else None for day in (chosen.date_from, chosen.date_to))
    # What a worker or a proxy had to do on some days is looked up where all of that is known: in
    # one index.
    by_run = chosen.worker_id is not None or chosen.proxy is not None
    return _status_params(chosen.statuses) | {
        "checkpoint": chosen.checkpoint,
        "media_type": chosen.media_type,
        "language": chosen.language,
        "worker_id": chosen.worker_id,
        "proxy": chosen.proxy,
        "error_code": chosen.error_code,
        "day": first if one_day else None,
        "date_from": None if one_day else first,
        "date_to": None if one_day else last,
        "run_from": first if by_run else None,
        "run_to": last if by_run else None,
    }


def goes_by_day(chosen: MissionFilter) -> bool:
    """A range of days, and otherwise only what most missions are: a rare thing has an index of its
    own."""
    is_range = chosen.date_from != chosen.date_to
    common = chosen.statuses is None or "completed" in chosen.statuses
    rare = chosen.worker_id or chosen.proxy or chosen.error_code
    return is_range and common and not rare and chosen.checkpoint in (None, "finalizado")


def _status_params(statuses: Sequence[str] | None) -> dict[str, Any]:
    """To the engine, a mission between two attempts is queued; to people it is running."""
    wanted = set(statuses or ())
    running, queued = "running" in wanted, "queued" in wanted
    only_running = wanted == {"running"}
    engine = sorted(wanted | ({"queued"} if running else set()))
    return {
        "engine_statuses": engine if wanted and not only_running else None,
        "only_running": only_running,
        "begun": running and not queued,
        "not_begun": queued and not running,
    }


def _chosen(body: MissionSelection) -> dict[str, Any]:
    return filter_params(body.filter or MissionFilter())


def _wanted(body: NewMissions) -> list[MissionArgs]:
    if body.range is None:
        return list(body.missions or [])
    wanted = body.range
    return missions_of(
        wanted.date_start,
        wanted.date_end,
        wanted.media_types,
        wanted.languages,
        days_each=wanted.days_each,
    )


async def _mission(api: Api, mission_id: int) -> Mission:
    params = filter_params(MissionFilter())
    row = await QUERIES.fetch_one(
        api.database, "list_missions", id=mission_id, before_id=None, limit=1, **params
    )
    if row is None:
        raise NotFound(f"there is no mission {mission_id}")
    return Mission(**row)


async def _changed(api: Api, before: Mission, note: AuditNoteDep) -> Mission:
    after = await _mission(api, before.id)
    note.about({"mission_id": before.id}, before=_state(before), after=_state(after))
    return after


def _state(mission: Mission) -> dict[str, Any]:
    return {"status": mission.status, "checkpoint": mission.checkpoint}
