"""`/api/orchestrator`: show, start and stop the orchestrator of missions."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.pipelines.missions.read_models import Orchestrator

routes = resource("/api/orchestrator", "orchestrator")


@routes.get("", summary="Show the orchestrator")
async def show(api: ApiDep, who: Viewer) -> Orchestrator:
    return await api.regente.missions.orchestrator()


@routes.post("/start", summary="Open the orchestrator")
async def start(api: ApiDep, who: Operator, note: AuditNoteDep) -> Orchestrator:
    """Dispatches missions to workers until none is left."""
    before = await api.regente.missions.orchestrator()
    after = await api.regente.missions.start(by=who.name)
    note.about("orchestrator", before={"state": before.state}, after={"state": after.state})
    return after


@routes.post("/stop", summary="Stop the orchestrator")
async def stop(
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
    now: Annotated[
        bool, Query(description="Return running missions to the queue at once.")
    ] = False,
) -> Orchestrator:
    """No more missions start; running ones may finish. It stays closed until it is started."""
    before = await api.regente.missions.orchestrator()
    after = await api.regente.missions.stop(now=now, by=who.name)
    note.about(
        "orchestrator", before={"state": before.state}, after={"state": after.state, "now": now}
    )
    return after
