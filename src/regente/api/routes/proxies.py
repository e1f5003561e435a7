"""Proxies: what workers' sessions go out through."""

from __future__ import annotations

from regente.api import members
from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import Noting
from regente.api.limits import MemberId
from regente.api.models.fleet import NewProxy, Proxy, ProxyChanges, Verdict, plain
from regente.api.resource import resource
from regente.api.state import Used

routes = resource("/api/proxies", "proxies")


@routes.get("", summary="List proxies")
async def list_proxies(api: Used, who: Viewer) -> list[Proxy]:
    return [Proxy(**row) for row in await members.rows(api, "proxy")]


@routes.post("", summary="Add a proxy", status_code=201)
async def add(body: NewProxy, api: Used, who: Admin, note: Noting) -> Proxy:
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
    return Proxy(**await members.added(api, "proxy", member_id, note))


@routes.get("/{member_id}", summary="Show a proxy")
async def show(member_id: MemberId, api: Used, who: Viewer) -> Proxy:
    return Proxy(**await members.row(api, "proxy", member_id))


@routes.patch("/{member_id}", summary="Edit a proxy")
async def edit(
    member_id: MemberId, body: ProxyChanges, api: Used, who: Admin, note: Noting
) -> Proxy:
    """What is not given stays as it is."""
    return Proxy(**await members.edit(api, "proxy", member_id, plain(body), who, note))


@routes.post("/{member_id}/activate", summary="Switch a proxy on")
async def activate(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Proxy:
    """It begins again without strikes."""
    return Proxy(**await members.switch(api, "proxy", member_id, True, who, note))


@routes.post("/{member_id}/deactivate", summary="Switch a proxy off")
async def deactivate(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Proxy:
    """The session that goes through it may finish."""
    return Proxy(**await members.switch(api, "proxy", member_id, False, who, note))


@routes.post("/{member_id}/test", summary="Test a proxy")
async def check(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Verdict:
    """Is it there, and does it let us in? Sets `last_test_at` and `last_test_ok`."""
    return await members.check(api, "proxy", member_id, note)


@routes.delete("/{member_id}", summary="Remove a proxy", status_code=204)
async def remove(member_id: MemberId, api: Used, who: Admin, note: Noting) -> None:
    """Only one that is not in use."""
    await members.remove(api, "proxy", member_id, who, note)
