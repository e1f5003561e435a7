"""`/api/writers`: external services that store results."""

from __future__ import annotations

from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.fleet.health import TestResult
from regente.fleet.read_models import WriterInfo
from regente.pipelines.missions.api import fleet
from regente.pipelines.missions.api.fleet_models import NewWriter, WriterChanges, plain

routes = resource("/api/writers", "writers")


@routes.get("", summary="List writers")
async def list_writers(api: ApiDep, who: Viewer) -> list[WriterInfo]:
    return await fleet.listed(api, WriterInfo)


@routes.post("", summary="Add a writer", status_code=201)
async def add(body: NewWriter, api: ApiDep, who: Admin, note: AuditNoteDep) -> WriterInfo:
    """Its API key is encrypted at rest and never shown again."""
    given = plain(body)
    member_id = await api.regente.fleet.add_writer(
        given["name"], given["url"], given["api_key"], by=who.name
    )
    return await fleet.added(api, WriterInfo, member_id, note)


@routes.get("/{member_id}", summary="Show a writer")
async def show(member_id: MemberId, api: ApiDep, who: Viewer) -> WriterInfo:
    return await fleet.shown(api, WriterInfo, member_id)


@routes.patch("/{member_id}", summary="Edit a writer")
async def edit(
    member_id: MemberId, body: WriterChanges, api: ApiDep, who: Admin, note: AuditNoteDep
) -> WriterInfo:
    """Omitted fields stay unchanged."""
    return await fleet.edit(api, WriterInfo, member_id, plain(body), who, note)


@routes.post("/{member_id}/activate", summary="Activate a writer")
async def activate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> WriterInfo:
    """It gets jobs again."""
    return await fleet.switch(api, WriterInfo, member_id, True, who, note)


@routes.post("/{member_id}/deactivate", summary="Deactivate a writer")
async def deactivate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> WriterInfo:
    """Its current jobs may finish."""
    return await fleet.switch(api, WriterInfo, member_id, False, who, note)


@routes.post("/{member_id}/test", summary="Test a writer")
async def check(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> TestResult:
    """Whether it answers and accepts its key. Sets `last_test_at` and `last_test_ok`."""
    return await fleet.check(api, WriterInfo, member_id, note)


@routes.delete("/{member_id}", summary="Remove a writer", status_code=204)
async def remove(member_id: MemberId, api: ApiDep, who: Admin, note: AuditNoteDep) -> None:
    """Refused while it is in use."""
    await fleet.remove(api, WriterInfo, member_id, who, note)
