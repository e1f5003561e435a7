"""`/api/workers`: external services that scrape."""

from __future__ import annotations

from regente.api import fleet
from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.models.fleet import NewWorker, Verdict, Worker, WorkerChanges, plain
from regente.api.resource import resource
from regente.api.state import ApiDep

routes = resource("/api/workers", "workers")


@routes.get("", summary="List workers")
async def list_workers(api: ApiDep, who: Viewer) -> list[Worker]:
    return [Worker(**row) for row in await fleet.rows(api, "worker")]


@routes.post("", summary="Add a worker", status_code=201)
async def add(body: NewWorker, api: ApiDep, who: Admin, note: AuditNoteDep) -> Worker:
    """Its API key is encrypted at rest and never shown again."""
    given = plain(body)
    member_id = await api.regente.fleet.add_worker(
        given["name"], given["url"], given["api_key"], given["storage_domain"], by=who.name
    )
    return Worker(**await fleet.added(api, "worker", member_id, note))


@routes.get("/{member_id}", summary="Show a worker")
async def show(member_id: MemberId, api: ApiDep, who: Viewer) -> Worker:
    return Worker(**await fleet.row(api, "worker", member_id))


@routes.patch("/{member_id}", summary="Edit a worker")
async def edit(
    member_id: MemberId, body: WorkerChanges, api: ApiDep, who: Admin, note: AuditNoteDep
) -> Worker:
    """Omitted fields stay unchanged."""
    return Worker(**await fleet.edit(api, "worker", member_id, plain(body), who, note))


@routes.post("/{member_id}/activate", summary="Activate a worker")
async def activate(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Worker:
    """Resets its failures."""
    return Worker(**await fleet.switch(api, "worker", member_id, True, who, note))


@routes.post("/{member_id}/deactivate", summary="Deactivate a worker")
async def deactivate(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Worker:
    """Its current mission may finish."""
    return Worker(**await fleet.switch(api, "worker", member_id, False, who, note))


@routes.post("/{member_id}/test", summary="Test a worker")
async def check(member_id: MemberId, api: ApiDep, who: Operator, note: AuditNoteDep) -> Verdict:
    """Whether it answers and accepts its key. Sets `last_test_at` and `last_test_ok`."""
    return await fleet.check(api, "worker", member_id, note)


@routes.delete("/{member_id}", summary="Remove a worker", status_code=204)
async def remove(member_id: MemberId, api: ApiDep, who: Admin, note: AuditNoteDep) -> None:
    """Refused while it is in use."""
    await fleet.remove(api, "worker", member_id, who, note)
