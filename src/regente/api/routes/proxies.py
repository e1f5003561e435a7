"""`/api/proxies`: the proxies of workers' sessions."""

from __future__ import annotations

from regente.api import fleet
from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.models.fleet import NewProxy, Proxy, ProxyChanges, Verdict, plain
from regente.api.resource import resource
from regente.api.state import ApiDep

routes = resource("/api/proxies", "proxies")


@routes.get("", summary="List proxies")
async def list_proxies(api: ApiDep, who: Viewer) -> list[Proxy]:
    return [Proxy(**row) for row in await fleet.rows(api, "proxy")]


@routes.post("", summary="Add a proxy", status_code=201)
async def add(body: NewProxy, api: ApiDep, who: Admin, note: AuditNoteDep) -> Proxy:
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
    return Proxy(**await fleet.added(api, "proxy", member_id, note))


@routes.get("/{member_id}", summary="Show a proxy")
async def show(member_id: MemberId, api: ApiDep, who: Viewer) -> Proxy:
    return Proxy(**await fleet.row(api, "proxy", member_id))


@routes.patch("/{member_id}", summary="Edit a proxy")
async def edit(
    member_id: MemberId, body: ProxyChanges, api: ApiDep, who: Admin, note: AuditNoteDep
) -> Proxy:
    """Omitted fields stay unchanged."""
    return Proxy(**await fleet.edit(api, "proxy", member_id, plain(body), who, note))


@routes.post("/{member_id}/activate", summary="Activate a proxy")
async def activate(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Proxy:
    """It is active again, with its failures reset to 0."""
    return Proxy(**await fleet.switch(api, "proxy", member_id, True, who, note))


@routes.post("/{member_id}/deactivate", summary="Deactivate a proxy")
async def deactivate(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Proxy:
    """Its current session may finish."""
    return Proxy(**await fleet.switch(api, "proxy", member_id, False, who, note))


@routes.post("/{member_id}/test", summary="Test a proxy")
async def check(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Verdict:
    """Whether it answers and accepts its credentials. Sets `last_test_at` and `last_test_ok`."""
    return await fleet.check(api, "proxy", member_id, note)


@routes.delete("/{member_id}", summary="Remove a proxy", status_code=204)
async def remove(member_id: MemberId, api: ApiDep, who: Admin, note: AuditNoteDep) -> None:
    """Refused while it is in use."""
    await fleet.remove(api, "proxy", member_id, who, note)
