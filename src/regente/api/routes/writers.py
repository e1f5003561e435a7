"""Writers: external services that store results."""

from __future__ import annotations

from regente.api import members
from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import Noting
from regente.api.limits import MemberId
from regente.api.models.fleet import NewWriter, Verdict, Writer, WriterChanges, plain
from regente.api.resource import resource
from regente.api.state import Used

routes = resource("/api/writers", "writers")


@routes.get("", summary="List writers")
async def list_writers(api: Used, who: Viewer) -> list[Writer]:
    return [Writer(**row) for row in await members.rows(api, "writer")]


@routes.post("", summary="Add a writer", status_code=201)
async def add(body: NewWriter, api: Used, who: Admin, note: Noting) -> Writer:
    """Its api key is encrypted at rest and never shown again."""
    given = plain(body)
    member_id = await api.regente.fleet.add_writer(
        given["name"], given["url"], given["api_key"], by=who.name
    )
    return Writer(**await members.added(api, "writer", member_id, note))


@routes.get("/{member_id}", summary="Show a writer")
async def show(member_id: MemberId, api: Used, who: Viewer) -> Writer:
    return Writer(**await members.row(api, "writer", member_id))


@routes.patch("/{member_id}", summary="Edit a writer")
async def edit(
    member_id: MemberId, body: WriterChanges, api: Used, who: Admin, note: Noting
) -> Writer:
    """What is not given stays as it is."""
    return Writer(**await members.edit(api, "writer", member_id, plain(body), who, note))


@routes.post("/{member_id}/activate", summary="Switch a writer on")
async def activate(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Writer:
    """It gets jobs again."""
    return Writer(**await members.switch(api, "writer", member_id, True, who, note))


@routes.post("/{member_id}/deactivate", summary="Switch a writer off")
async def deactivate(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Writer:
    """Jobs that it has may finish."""
    return Writer(**await members.switch(api, "writer", member_id, False, who, note))


@routes.post("/{member_id}/test", summary="Test a writer")
async def check(member_id: MemberId, api: Used, who: Operator, note: Noting) -> Verdict:
    """Is it there, and does it let us in? Sets `last_test_at` and `last_test_ok`."""
    return await members.check(api, "writer", member_id, note)


@routes.delete("/{member_id}", summary="Remove a writer", status_code=204)
async def remove(member_id: MemberId, api: Used, who: Admin, note: Noting) -> None:
    """Only one that is not in use."""
    await members.remove(api, "writer", member_id, who, note)
