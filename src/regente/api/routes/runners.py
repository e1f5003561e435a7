"""`/api/runners`: the processes that run tasks."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNote, AuditNoteDep
from regente.api.limits import MAX_PAGE, Id
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.errors import IllegalTransition
from regente.engine.models import RunnerInfo, WorkerMetrics

routes = resource("/api/runners", "runners")


@routes.get("", summary="List runners, newest first")
async def list_runners(
    api: ApiDep,
    who: Viewer,
    everyone: Annotated[bool, Query(description="Include stopped and lost runners.")] = False,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> list[RunnerInfo]:
    return await api.reads.runners(everyone=everyone, limit=limit)


@routes.get("/{runner_id}", summary="Show a runner")
async def show(runner_id: Id, api: ApiDep, who: Viewer) -> RunnerInfo:
    return await api.reads.runner(runner_id)


@routes.get("/{runner_id}/metrics", summary="Show a runner's metrics")
async def metrics(runner_id: Id, api: ApiDep, who: Viewer) -> WorkerMetrics:
    """By the names of the original specification; written with each renewal of the lease."""
    return WorkerMetrics.of(await api.reads.runner(runner_id))


@routes.post("/{runner_id}/drain", summary="Drain a runner")
async def drain(runner_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> RunnerInfo:
    """It finishes its tasks and claims no more; the process stays until stopped or resumed."""
    return await _move(api, runner_id, "running", "draining", who.name, note)


@routes.post("/{runner_id}/resume", summary="Resume a draining runner")
async def resume(runner_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> RunnerInfo:
    return await _move(api, runner_id, "draining", "running", who.name, note)


async def _move(
    api: Api, runner_id: int, before: str, after: str, by: str, note: AuditNote
) -> RunnerInfo:
    found = await api.reads.runner(runner_id)
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
    return await api.reads.runner(runner_id)
