"""`/api/runners`: the processes that run tasks."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNote, AuditNoteDep
from regente.api.limits import MAX_PAGE, Id
from regente.api.models.tasks import Runner
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.errors import IllegalTransition
from regente.engine.models import RunnerInfo

routes = resource("/api/runners", "runners")


@routes.get("", summary="List runners, newest first")
async def list_runners(
    api: ApiDep,
    who: Viewer,
    everyone: Annotated[bool, Query(description="Include stopped and lost runners.")] = False,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> list[Runner]:
    return [_runner(one) for one in await api.regente.runners(everyone=everyone, limit=limit)]


@routes.get("/{runner_id}", summary="Show a runner")
async def show(runner_id: Id, api: ApiDep, who: Viewer) -> Runner:
    return _runner(await api.regente.runner(runner_id))


@routes.post("/{runner_id}/drain", summary="Drain a runner")
async def drain(runner_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Runner:
    """It finishes its tasks and claims no more; the process stays until stopped or resumed."""
    return await _move(api, runner_id, "running", "draining", who.name, note)


@routes.post("/{runner_id}/resume", summary="Resume a draining runner")
async def resume(runner_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Runner:
    return await _move(api, runner_id, "draining", "running", who.name, note)


async def _move(
    api: Api, runner_id: int, before: str, after: str, by: str, note: AuditNote
) -> Runner:
    found = await api.regente.runner(runner_id)
    if found.status != before or not found.alive:
        state = found.status if found.alive else "not alive"
        raise IllegalTransition(
            f"runner {runner_id} is {state}: only a {before} runner can be set to {after}"
        )
    params = {"runner_id": runner_id, "status": after, "details": json.dumps({"by": by})}
    await api.regente.database.fetch("set_runner_status", params)
    note.about(
        {"runner_id": runner_id, "name": found.name},
        before={"status": before},
        after={"status": after},
    )
    return _runner(await api.regente.runner(runner_id))


def _runner(found: RunnerInfo) -> Runner:
    return Runner(**{**asdict(found), "average_seconds": found.average_seconds})
