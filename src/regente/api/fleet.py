"""Handlers that workers, proxies and writers share: show, edit, activate, test, remove."""

from __future__ import annotations

from typing import Any

from regente.api.access.principal import Principal
from regente.api.audit import AuditNote
from regente.api.models.fleet import Verdict
from regente.api.queries import QUERIES
from regente.api.state import Api
from regente.engine.errors import NotFound
from regente.fleet.health import check_member
from regente.fleet.models import Kind
from regente.queries import Row

LISTS: dict[Kind, str] = {
    "worker": "list_workers",
    "proxy": "list_proxies",
    "writer": "list_writers",
}


async def rows(api: Api, kind: Kind) -> list[Row]:
    return await QUERIES.fetch_all(api.database, LISTS[kind], id=None)


async def row(api: Api, kind: Kind, member_id: str) -> Row:
    found = await QUERIES.fetch_one(api.database, LISTS[kind], id=member_id)
    if found is None:
        raise NotFound(f"there is no {kind} {member_id!r}")
    return found


async def added(api: Api, kind: Kind, member_id: str, note: AuditNote) -> Row:
    found = await row(api, kind, member_id)
    note.about({kind: member_id}, after=_audited(found))
    return found


async def edit(
    api: Api, kind: Kind, member_id: str, changes: dict[str, Any], who: Principal, note: AuditNote
) -> Row:
    before = await row(api, kind, member_id)
    if changes:
        await api.regente.fleet.edit(kind, member_id, changes, by=who.name)
    after = await row(api, kind, member_id)
    shown = [name for name in changes if name in after]
    told = {name: after[name] for name in shown} | {
        name: "changed" for name in changes if name not in after
    }
    note.about({kind: member_id}, before={name: before[name] for name in shown}, after=told)
    return after


async def switch(
    api: Api, kind: Kind, member_id: str, active: bool, who: Principal, note: AuditNote
) -> Row:
    before = await row(api, kind, member_id)
    await api.regente.fleet.set_active(kind, member_id, active, by=who.name)
    note.about({kind: member_id}, before={"active": before["active"]}, after={"active": active})
    return await row(api, kind, member_id)


async def check(api: Api, kind: Kind, member_id: str, note: AuditNote) -> Verdict:
    await row(api, kind, member_id)
    found = await check_member(api.regente.fleet, kind, member_id)
    note.about({kind: member_id}, after={"ok": found.ok, "message": found.message})
    return Verdict(ok=found.ok, message=found.message, milliseconds=found.milliseconds)


async def remove(api: Api, kind: Kind, member_id: str, who: Principal, note: AuditNote) -> None:
    before = await row(api, kind, member_id)
    await api.regente.fleet.remove(kind, member_id, by=who.name)
    note.about({kind: member_id}, before=_audited(before))


def _audited(found: Row) -> Row:
    return {
        name: found[name]
        for name in ("name", "url", "host", "port", "username", "active")
        if name in found
    }
