"""`/api/tasks`: tasks of all pipelines."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.bulk import requests as bulk
from regente.api.bulk.actions import ActionKind
from regente.api.limits import MAX_PAGE, Id
from regente.api.models.basics import Action, Done, DryRun, Page, Word
from regente.api.models.tasks import (
    ChangedSelection,
    Resolution,
    Signal,
    SignalSent,
    Step,
    TaskChange,
    TaskFilter,
    TaskQuery,
    TaskSelection,
)
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.engine.errors import IllegalTransition
from regente.engine.models import Attempt, BatchInfo, Decision, Event, SignalWaitInfo, TaskInfo, Why
from regente.redaction import redacted

routes = resource("/api/tasks", "tasks")

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


@routes.get("", summary="List tasks, newest first")
async def list_tasks(
    query: Annotated[TaskQuery, Query()], api: ApiDep, who: Viewer
) -> Page[TaskInfo]:
    found = await api.reads.tasks(
        pipeline=query.pipeline,
        statuses=query.statuses,
        batch_id=query.batch_id,
        code=query.code,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=[shown(one) for one in found[: query.limit]], next=more)


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


@routes.post("/change", summary="Change tasks that wait", responses={202: {"model": Action}})
async def change_many(
    body: ChangedSelection,
    request: Request,
    response: Response,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
) -> Action | DryRun:
    """Priority, time, lane and limit of attempts of queued tasks and drafts."""
    await api.regente.change_many([], **body.changes.given)  # refuses wrong changes at once
    return await bulk.run(
        api,
        request,
        response,
        who,
        note,
        ActionKind.CHANGE_TASKS,
        body,
        bulk.selection(api, "select_tasks", _chosen(body)),
    )


@routes.get("/decisions", summary="List calls with an unknown outcome, oldest first")
async def decisions(api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Decision]:
    """Calls that may have taken effect and whose result is not known. Their tasks wait until a
    person decides."""
    return await api.reads.decisions(limit=limit)


@routes.get("/waiting", summary="List tasks that wait for a signal, longest wait first")
async def waiting(
    api: ApiDep, who: Viewer, signal: Word | None = None, limit: Limit = 100
) -> list[SignalWaitInfo]:
    return await api.reads.waiting(signal=signal, limit=limit)


@routes.get("/{task_id}", summary="Show a task")
async def show(task_id: Id, api: ApiDep, who: Viewer) -> TaskInfo:
    return shown(await api.reads.get(task_id))


@routes.get("/{task_id}/attempts", summary="List attempts at a task, the latest first")
async def attempts(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Attempt]:
    """Which runner ran them, with which version of the code."""
    await api.reads.get(task_id)
    return await api.reads.attempts(task_id, limit)


@routes.get("/{task_id}/steps", summary="List finished steps of a task")
async def steps(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Step]:
    await api.reads.get(task_id)
    return [
        Step(**{**row, "output": redacted(row["output"])})
        for row in await api.reads.steps(task_id, limit)
    ]


@routes.get("/{task_id}/events", summary="List events of a task, oldest first")
async def events(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[Event]:
    await api.reads.get(task_id)
    found = await api.reads.task_events(task_id, limit)
    return [one.model_copy(update={"details": redacted(one.details)}) for one in found]


@routes.get("/{task_id}/children", summary="List batches that a task has spawned, newest first")
async def children(task_id: Id, api: ApiDep, who: Viewer, limit: Limit = 100) -> list[BatchInfo]:
    """Each is the tasks that one of its steps has spawned and waits for."""
    found = await api.reads.children(task_id, limit)
    return [one.model_copy(update={"details": redacted(one.details)}) for one in found]


@routes.get("/{task_id}/why", summary="Explain why a task is not running")
async def why(task_id: Id, api: ApiDep, who: Viewer) -> Why:
    return await api.reads.why(task_id)


@routes.post("/{task_id}/cancel", summary="Cancel a task")
async def cancel(task_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> Done:
    """`canceled` if it ended at once, `canceling` if its runner was asked to stop it."""
    before = await api.regente.get(task_id)
    status = await api.regente.cancel(task_id, by=who.name)
    note.about({"task_id": task_id}, before={"status": before.status}, after={"status": status})
    return Done(id=task_id, status=status)


@routes.post("/{task_id}/change", summary="Change a task that waits")
async def change(
    task_id: Id, body: TaskChange, api: ApiDep, who: Operator, note: AuditNoteDep
) -> TaskInfo:
    """Its priority, time, lane and limit of attempts; before its first attempt also its
    arguments. Those are replaced as a whole: what is shown of secrets must be given again."""
    before = await api.regente.get(task_id)
    after = await api.regente.change(task_id, by=who.name, **body.given)
    names = sorted(body.model_fields_set - {"args"})
    note.about(
        {"task_id": task_id, "changed": sorted(body.model_fields_set)},
        before={name: getattr(before, name) for name in names},
        after={name: getattr(after, name) for name in names},
    )
    return shown(after)


@routes.post("/{task_id}/retry", summary="Retry a task")
async def retry(task_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep) -> TaskInfo:
    before = await api.regente.get(task_id)
    if not await api.retry(task_id, by=who.name):
        raise IllegalTransition(
            f"task {task_id} is {before.status}: only failed, canceled and skipped tasks "
            "can be retried"
        )
    after = await api.regente.get(task_id)
    note.about(
        {"task_id": task_id}, before={"status": before.status}, after={"status": after.status}
    )
    return shown(after)


@routes.post("/{task_id}/resolve", summary="Decide on a call with an unknown outcome")
async def resolve(
    task_id: Id, body: Resolution, api: ApiDep, who: Operator, note: AuditNoteDep
) -> TaskInfo:
    """Makes the call again (`retry`), or goes on with the given `result`."""
    given = {"result": body.result} if "result" in body.model_fields_set else {}
    await api.regente.resolve(
        task_id, body.step, item=body.item, retry=body.retry, by=who.name, **given
    )
    note.about(
        {"task_id": task_id, "step": body.step, "item": body.item},
        before={"decision": None},
        after={"decision": "retry" if body.retry else "result"},
    )
    return shown(await api.regente.get(task_id))


@routes.post("/{task_id}/signals", summary="Send a signal to a task", status_code=201)
async def send_signal(
    task_id: Id, body: Signal, api: ApiDep, who: Operator, note: AuditNoteDep
) -> SignalSent:
    """The task receives it once, now or when it waits for it. Sent again with the same `key` it is
    the same signal."""
    sent = await api.regente.signal(task_id, body.name, body.payload, key=body.key, by=who.name)
    note.about({"task_id": task_id, "signal": body.name}, after={"signal_id": sent})
    return SignalSent(id=sent, task_id=task_id, name=body.name)


def shown(found: TaskInfo) -> TaskInfo:
    """The task without secrets."""
    hidden = ("args", "result", "error_message")
    return found.model_copy(update={name: redacted(getattr(found, name)) for name in hidden})


def _chosen(body: TaskSelection) -> dict[str, Any]:
    return (body.filter or TaskFilter()).model_dump()
