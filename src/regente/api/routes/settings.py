"""`/api/settings`: the runtime settings and the fixed parameters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regente.api.access.roles import Admin, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.models.basics import Strict
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.retention import MAX_DAYS, MIN_DAYS

routes = resource("/api/settings", "settings")


class Settings(BaseModel):
    session_limit: int = Field(
        description="Missions per session, until the proxy is changed.", examples=[5]
    )
    max_retries: int = Field(
        description="Retries of a mission before it fails for good.", examples=[2]
    )
    auto_start: bool = Field(description="Whether queued missions open the orchestrator.")
    retention_days: float = Field(
        description="How long finished tasks and their events are kept. Missions are kept until it "
        "is set here or in the environment.",
        examples=[30],
    )
    fixed: dict[str, float] = Field(description="Parameters from the environment.")


class SettingChanges(Strict):
    session_limit: int | None = Field(None, ge=1, le=1000)
    max_retries: int | None = Field(None, ge=0, le=100)
    auto_start: bool | None = Field(None, strict=True)
    retention_days: float | None = Field(
        None,
        ge=MIN_DAYS,
        le=MAX_DAYS,
        strict=True,
        description="Whole or fractional days, at least an hour.",
    )


@routes.get("", summary="Show the settings")
async def show(api: ApiDep, who: Viewer) -> Settings:
    return await _settings(api)


@routes.patch("", summary="Change settings")
async def change(body: SettingChanges, api: ApiDep, who: Admin, note: AuditNoteDep) -> Settings:
    """Running processes apply them without a restart."""
    changes: dict[str, Any] = body.model_dump(exclude_none=True)
    before = await api.regente.runtime_settings.all()
    for key, value in changes.items():
        await api.regente.runtime_settings.set(key, value, by=who.name)
    note.about(
        {"settings": list(changes)}, before={key: before[key] for key in changes}, after=changes
    )
    return await _settings(api)


async def _settings(api: Api) -> Settings:
    config = asdict(api.regente.fleet.config)
    fixed = {name: float(value) for name, value in config.items() if isinstance(value, int | float)}
    return Settings(**await api.regente.runtime_settings.all(), fixed=fixed)
