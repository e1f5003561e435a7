"""Handlers that workers, proxies and writers share: show, edit, activate, test, remove."""

from __future__ import annotations

from typing import Any, TypeVar

from regente.api.access.principal import Principal
from regente.api.audit import AuditNote
from regente.api.state import Api
from regente.engine.errors import NotFound
from regente.fleet.health import TestResult, check_member
from regente.fleet.read_models import Member
from regente.fleet.registry import list_members

M = TypeVar("M", bound=Member)
_AUDITED = {"name", "url", "host", "port", "username", "active"}


async def listed(api: Api, model: type[M]) -> list[M]:
    return await list_members(api.database, model)


async def shown(api: Api, model: type[M], member_id: str) -> M:
    found = await list_members(api.database, model, member_id)
    if not found:
        raise NotFound(f"there is no {model.kind} {member_id!r}")
    return found[0]


async def added(api: Api, model: type[M], member_id: str, note: AuditNote) -> M:
    found = await shown(api, model, member_id)
    note.about({model.kind: member_id}, after=found.model_dump(include=_AUDITED))
    return found


async def edit(
    api: Api,
    model: type[M],
    member_id: str,
    changes: dict[str, Any],
    who: Principal,
    note: AuditNote,
) -> M:
    before = await shown(api, model, member_id)
    if changes:
        await api.regente.fleet.edit(model.kind, member_id, changes, by=who.name)
    after = await shown(api, model, member_id)
    fields = {name for name in changes if name in model.model_fields}
    told = after.model_dump(include=fields) | dict.fromkeys(changes.keys() - fields, "changed")
    note.about({model.kind: member_id}, before=before.model_dump(include=fields), after=told)
    return after


async def switch(
    api: Api, model: type[M], member_id: str, active: bool, who: Principal, note: AuditNote
) -> M:
    before = await shown(api, model, member_id)
    await api.regente.fleet.set_active(model.kind, member_id, active, by=who.name)
    note.about({model.kind: member_id}, before={"active": before.active}, after={"active": active})
    return await shown(api, model, member_id)


async def check(api: Api, model: type[M], member_id: str, note: AuditNote) -> TestResult:
    await shown(api, model, member_id)
    found = await check_member(api.regente.fleet, model.kind, member_id)
    note.about({model.kind: member_id}, after={"ok": found.ok, "message": found.message})
    return found


async def remove(api: Api, model: type[M], member_id: str, who: Principal, note: AuditNote) -> None:
    before = await shown(api, model, member_id)
    await api.regente.fleet.remove(model.kind, member_id, by=who.name)
    note.about({model.kind: member_id}, before=before.model_dump(include=_AUDITED))
