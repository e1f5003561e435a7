"""`/api/workers`: external services that scrape."""

from __future__ import annotations

from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.fleet.health import TestResult
from regente.fleet.read_models import WorkerInfo
from regente.pipelines.missions.api import fleet
from regente.pipelines.missions.api.fleet_models import NewWorker, WorkerChanges, plain

routes = resource("/api/workers", "workers")


@routes.get("", summary="List workers")
async def list_workers(api: ApiDep, who: Viewer) -> list[WorkerInfo]:
    return await fleet.listed(api, WorkerInfo)


@routes.post("", summary="Add a worker", status_code=201)
async def add(body: NewWorker, api: ApiDep, who: Admin, note: AuditNoteDep) -> WorkerInfo:
    """Its API key is encrypted at rest and never shown again."""
    given = plain(body)
    member_id = await api.regente.fleet.add_worker(
        given["name"], given["url"], given["api_key"], given["storage_domain"], by=who.name
    )
    return await fleet.added(api, WorkerInfo, member_id, note)


@routes.get("/{member_id}", summary="Show a worker")
async def show(member_id: MemberId, api: ApiDep, who: Viewer) -> WorkerInfo:
    return await fleet.shown(api, WorkerInfo, member_id)


@routes.patch("/{member_id}", summary="Edit a worker")
async def edit(
    member_id: MemberId, body: WorkerChanges, api: ApiDep, who: Admin, note: AuditNoteDep
) -> WorkerInfo:
    """Omitted fields stay unchanged."""
    return await fleet.edit(api, WorkerInfo, member_id, plain(body), who, note)


@routes.post("/{member_id}/activate", summary="Activate a worker")
async def activate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> WorkerInfo:
    """Resets its failures."""
    return await fleet.switch(api, WorkerInfo, member_id, True, who, note)


@routes.post("/{member_id}/deactivate", summary="Deactivate a worker")
async def deactivate(
    member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep
) -> WorkerInfo:
    """Its current mission may finish."""
    return await fleet.switch(api, WorkerInfo, member_id, False, who, note)


@routes.post("/{member_id}/test", summary="Test a worker")
async def check(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> TestResult:
    """Whether it answers and accepts its key. Sets `last_test_at` and `last_test_ok`."""
    return await fleet.check(api, WorkerInfo, member_id, note)


@routes.delete("/{member_id}", summary="Remove a worker", status_code=204)
async def remove(member_id: MemberId, api: ApiDep, who: Admin, note: AuditNoteDep) -> None:
    """Refused while it is in use."""
    await fleet.remove(api, WorkerInfo, member_id, who, note)
