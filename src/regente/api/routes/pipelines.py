"""`/api/pipelines`: the known pipelines; pause and resume."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.errors import NotFound

routes = resource("/api/pipelines", "pipelines")

Name = Annotated[str, Path(min_length=1, max_length=200)]


class Pipeline(BaseModel):
    name: str
    paused: bool
    paused_at: datetime | None
    seen_at: datetime
    max_attempts: int
    stall_after_seconds: float | None
    versions: list[str] = Field(description="Of its code, in the runners that live.")


@routes.get("", summary="List pipelines")
async def list_pipelines(api: ApiDep, who: Viewer) -> list[Pipeline]:
    return [Pipeline(**row) for row in await api.reads.pipelines()]


@routes.post("/{name}/pause", summary="Pause a pipeline")
async def pause(name: Name, api: ApiDep, who: Operator, note: AuditNoteDep) -> Pipeline:
    """Runners claim none of its tasks; running tasks continue."""
    await _find(api, name)
    await api.regente.pause(name, by=who.name)
    note.about({"pipeline": name}, after={"paused": True})
    return await _find(api, name)


@routes.post("/{name}/resume", summary="Resume a pipeline")
async def resume(name: Name, api: ApiDep, who: Operator, note: AuditNoteDep) -> Pipeline:
    await _find(api, name)
    await api.regente.resume(name, by=who.name)
    note.about({"pipeline": name}, after={"paused": False})
    return await _find(api, name)


async def _find(api: Api, name: str) -> Pipeline:
    for row in await api.reads.pipelines():
        if row["name"] == name:
            return Pipeline(**row)
    raise NotFound(f"there is no pipeline {name!r}")
