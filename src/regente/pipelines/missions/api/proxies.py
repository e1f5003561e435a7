"""`/api/proxies`: the proxies of workers' sessions."""

from __future__ import annotations

from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.fleet.health import TestResult
from regente.fleet.read_models import ProxyInfo
from regente.pipelines.missions.api import fleet
from regente.pipelines.missions.api.fleet_models import NewProxy, ProxyChanges, plain

routes = resource("/api/proxies", "proxies")


@routes.get("", summary="List proxies")
async def list_proxies(api: ApiDep, who: Viewer) -> list[ProxyInfo]:
    return await fleet.listed(api, ProxyInfo)


@routes.post("", summary="Add a proxy", status_code=201)
async def add(body: NewProxy, api: ApiDep, who: Admin, note: AuditNoteDep) -> ProxyInfo:
    """Its password is encrypted at rest and never shown again."""
    given = plain(body)
    member_id = await api.regente.fleet.add_proxy(
        given["name"],
        given["host"],
        given.get("port"),
        given.get("username"),
        given.get("password"),
        by=who.name,
    )
    return await fleet.added(api, ProxyInfo, member_id, note)


@routes.get("/{member_id}", summary="Show a proxy")
async def show(member_id: MemberId, api: ApiDep, who: Viewer) -> ProxyInfo:
    return await fleet.shown(api, ProxyInfo, member_id)


@routes.patch("/{member_id}", summary="Edit a proxy")
async def edit(
    member_id: MemberId, body: ProxyChanges, api: ApiDep, who: Admin, note: AuditNoteDep
) -> ProxyInfo:
    """Omitted fields stay unchanged."""
    return await fleet.edit(api, ProxyInfo, member_id, plain(body), who, note)


@routes.post("/{member_id}/activate", summary="Activate a proxy")
async def activate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> ProxyInfo:
    """It is active again, with its failures reset to 0."""
    return await fleet.switch(api, ProxyInfo, member_id, True, who, note)


@routes.post("/{member_id}/deactivate", summary="Deactivate a proxy")
async def deactivate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> ProxyInfo:
    """Its current session may finish."""
    return await fleet.switch(api, ProxyInfo, member_id, False, who, note)


@routes.post("/{member_id}/test", summary="Test a proxy")
async def check(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> TestResult:
    """Whether it answers and accepts its credentials. Sets `last_test_at` and `last_test_ok`."""
    return await fleet.check(api, ProxyInfo, member_id, note)


@routes.delete("/{member_id}", summary="Remove a proxy", status_code=204)
async def remove(member_id: MemberId, api: ApiDep, who: Admin, note: AuditNoteDep) -> None:
    """Refused while it is in use."""
    await fleet.remove(api, ProxyInfo, member_id, who, note)
