"""`/api/tasks`: tasks of all pipelines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk import requests as bulk
from regente.api.bulk.actions import ActionKind, retry_any
from regente.api.limits import MAX_PAGE, Id
from regente.api.models.basics import Action, Done, DryRun, Page, Why
from regente.api.models.tasks import Event, Step, Task, TaskFilter, TaskQuery, TaskSelection
from regente.api.redaction import redacted
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.engine.errors import IllegalTransition
from regente.engine.models import TaskInfo

routes = resource("/api/tasks", "tasks")

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


@routes.get("", summary="List tasks, newest first")
async def list_tasks(query: Annotated[TaskQuery, Query()], api: ApiDep, who: Viewer) -> Page[Task]:
    found = await api.regente.tasks(
        pipeline=query.pipeline,
        statuses=query.statuses,
        batch_id=query.batch_id,
        code=query.code,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=[task_of(one) for one in found[: query.limit]], next=more)


@routes.post("/cancel", summary="Cancel tasks", responses={202: {"model": Action}})
async def cancel_many(
    body: TaskSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.CANCEL_TASKS,
        body,
        bulk.selection(api, "select_tasks", _chosen(body)),
    )


@routes.post("/retry", summary="Retry tasks", responses={202: {"model": Action}})
async def retry_many(
    body: TaskSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """Requeues failed, canceled and skipped tasks with all their retries; keeps finished steps."""
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.RETRY_TASKS,
        body,
        bulk.selection(api, "select_tasks", _chosen(body)),
    )


@routes.get("/{task_id}", summary="Show a task")
async def show(task_id: Id, api: ApiDep, who: Viewer) -> Task:
    return task_of(await api.regente.get(task_id))


@routes.get("/{task_id}/steps", summary="List finished steps of a task")
async def steps(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Step]:
    await api.regente.get(task_id)
    return [
        Step(**{**row, "output": redacted(row["output"])})
        for row in await api.regente.steps(task_id, limit)
    ]


@routes.get("/{task_id}/events", summary="List events of a task, oldest first")
async def events(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Event]:
    await api.regente.get(task_id)
    found = await api.regente.task_events(task_id, limit)
    return [
        Event(**{**asdict(one), "position": one.position, "details": redacted(one.details)})
        for one in found
    ]


@routes.get("/{task_id}/why", summary="Explain why a task is not running")
async def why(task_id: Id, api: ApiDep, who: Viewer) -> Why:
    found = await api.regente.why(task_id)
    return Why(code=found.code, summary=found.summary, details=found.details)


@routes.post("/{task_id}/cancel", summary="Cancel a task")
async def cancel(task_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Done:
    """`canceled` if it ended at once, `canceling` if its runner was asked to stop it."""
    before = await api.regente.get(task_id)
    status = await api.regente.cancel(task_id, by=who.name)
    note.about({"task_id": task_id}, before={"status": before.status}, after={"status": status})
    return Done(id=task_id, status=status)


@routes.post("/{task_id}/retry", summary="Retry a task")
async def retry(task_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Task:
    before = await api.regente.get(task_id)
    if not await retry_any(api.regente, api.database, [task_id], who.name):
        raise IllegalTransition(
            f"task {task_id} is {before.status}: only failed, canceled and skipped tasks "
            "can be retried"
        )
    after = await api.regente.get(task_id)
    note.about(
        {"task_id": task_id}, before={"status": before.status}, after={"status": after.status}
    )
    return task_of(after)


def task_of(found: TaskInfo) -> Task:
    return Task(**{**asdict(found), "args": redacted(found.args), "result": redacted(found.result)})


def _chosen(body: TaskSelection) -> dict[str, Any]:
    return (body.filter or TaskFilter()).model_dump()
