"""The orchestrator of missions: open or not, started and stopped."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.resource import resource
from regente.api.state import ApiDep

routes = resource("/api/orchestrator", "orchestrator")


class Orchestrator(BaseModel):
    state: Literal["closed", "open", "draining", "halting"]
    stopped_by: str | None = Field(
        description="Who told it to stop: then queued missions do not open it."
    )
    opened_at: datetime | None
    closed_at: datetime | None
    any_queued: bool
    any_running: bool


@routes.get("", summary="Is it open, and is there work?")
async def show(api: ApiDep, who: Viewer) -> Orchestrator:
    return Orchestrator(**asdict(await api.regente.missions.orchestrator()))


@routes.post("/start", summary="Open it")
async def start(api: ApiDep, who: Operator, note: AuditNoteDep) -> Orchestrator:
    """Workers get sessions, missions get workers. It ends by itself when nothing is left to do."""
    before = await api.regente.missions.orchestrator()
    after = await api.regente.missions.start(by=who.name)
    note.about("orchestrator", before={"state": before.state}, after={"state": after.state})
    return Orchestrator(**asdict(after))


@routes.post("/stop", summary="Give out no more missions")
async def stop(
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
    now: Annotated[
        bool, Query(description="Do not wait: running missions go back to the queue.")
    ] = False,
) -> Orchestrator:
    """Those that run may finish. It stays closed until it is started again."""
    before = await api.regente.missions.orchestrator()
    after = await api.regente.missions.stop(now=now, by=who.name)
    note.about(
        "orchestrator", before={"state": before.state}, after={"state": after.state, "now": now}
    )
    return Orchestrator(**asdict(after))
