"""`regente tasks …`: look at tasks, and act on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.inputs import MAX_ID, IdArgument, IdsArgument, LimitOption, batch_reference, unique
from regente.cli.output import Column, figure, number, status_text, table, when, word
from regente.cli.task_view import SnapshotOption, show_task, task_document, write_snapshot
from regente.engine.errors import RegenteError
from regente.engine.models import STATUSES, TaskInfo

if TYPE_CHECKING:
    from rich.console import RenderableType

tasks = typer.Typer(
    name="tasks", help="Look at tasks, retry and cancel them.", no_args_is_help=True
)

_COLUMNS = (
    figure("ID"),
    Column("PIPELINE"),
    word("STATUS"),
    figure("ATTEMPT"),
    word("SINCE"),
    Column("AT"),
)


@command(tasks, "list", example="regente tasks list --status failed --pipeline prices")
async def list_tasks(
    call: CommandContext,
    pipeline: Annotated[str | None, typer.Option(help="Only this pipeline's.")] = None,
    status: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(STATUSES)}. May be repeated.")
    ] = None,
    batch: Annotated[str | None, typer.Option(help="Only this batch's: its id or name.")] = None,
    code: Annotated[
        str | None, typer.Option(help="Only those whose last error has this code.")
    ] = None,
    limit: LimitOption = 50,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
) -> None:
    """List tasks, newest first."""
    async with call.app() as app:
        batch_id = (await app.batch(batch_reference(batch))).id if batch else None
        found = await app.tasks(
            pipeline=pipeline,
            statuses=status or None,
            batch_id=batch_id,
            code=code,
            before_id=before,
            limit=limit,
        )
    filtered = any((pipeline, status, batch, code, before))
    call.answer(found, lambda: task_table(found) if found else _nothing(filtered))
    if len(found) == limit and not call.json:
        output.note(f"There may be more: add --before {found[-1].id} for the next page.")


def task_table(found: list[TaskInfo]) -> RenderableType:
    return table(_COLUMNS, (_row(task) for task in found))


def _row(task: TaskInfo) -> tuple[RenderableType, ...]:
    since = task.finished_at or (task.claimed_at if task.status == "running" else task.run_at)
    place = task.error_code if task.status == "failed" else task.checkpoint
    if task.status == "running" and task.progress is not None:
        place = f"{place or ''} {task.progress:.0%}".strip()
    return (
        str(task.id),
        task.pipeline,
        status_text(task.status),
        number(task.attempt),
        when(since),
        place or "",
    )


def _nothing(filtered: bool) -> str:
    if filtered:
        return "No task matches. Leave out a filter, or see all with: regente tasks list"
    return 'No tasks yet. Enqueue one with: regente enqueue PIPELINE \'{"some": "argument"}\''


@command(tasks, "show", example="regente tasks show 42")
async def show(call: CommandContext, task_id: IdArgument, snapshot: SnapshotOption = None) -> None:
    """Show one task: arguments, result, steps, timeline, failures with the stack of the last,
    snapshots."""
    async with call.app() as app:
        document = await task_document(app, task_id)
        if snapshot is not None:
            await write_snapshot(app, document, snapshot)
            return
    if call.json:
        output.write_json(document)
    else:
        show_task(document)


@command(tasks, "why", example="regente tasks why 42")
async def why(call: CommandContext, task_id: IdArgument) -> None:
    """Say why a task is not running, or where it stands."""
    async with call.app() as app:
        answer = await app.why(task_id)
    call.answer(
        {"id": task_id, "code": answer.code, "summary": answer.summary, "details": answer.details},
        lambda: answer.summary,
    )


@command(tasks, "retry", example="regente tasks retry 42 43")
async def retry(call: CommandContext, ids: IdsArgument) -> None:
    """Start failed, canceled or skipped tasks again, with a fresh budget. Finished steps stay
    finished."""

    async def act(app: Regente, task_id: int) -> str:
        await app.retry(task_id)
        return "queued"

    await _each(call, ids, act)


@command(tasks, "cancel", example="regente tasks cancel 42")
async def cancel(call: CommandContext, ids: IdsArgument) -> None:
    """Cancel tasks: waiting ones end at once, running ones are asked to end."""
    await _each(call, ids, lambda app, task_id: app.cancel(task_id))


@command(tasks, "queue", example="regente tasks queue 42 43")
async def queue(call: CommandContext, ids: IdsArgument) -> None:
    """Move drafts from the bank into the queue."""
    async with call.app() as app:
        moved = await app.queue(unique(ids))
    stayed = [task_id for task_id in unique(ids) if task_id not in moved]
    call.answer(
        {"queued": moved, "not_drafts": stayed},
        lambda: f"{output.plural(len(moved), 'draft')} queued.",
    )
    if stayed:
        if not call.json:
            output.note(f"Not drafts: {', '.join(map(str, stayed))}.")
        raise typer.Exit(FAILURE_EXIT)


async def _each(
    call: CommandContext, ids: list[int], act: Callable[[Regente, int], Awaitable[str]]
) -> None:
    """Act on every id; one that fails does not keep the others from their turn."""
    results: list[dict[str, Any]] = []
    async with call.app() as app:
        for task_id in unique(ids):
            try:
                results.append({"id": task_id, "status": await act(app, task_id)})
            except RegenteError as error:
                results.append(
                    {"id": task_id, "error": {"code": error.code, "message": error.message}}
                )
    done = [one for one in results if "error" not in one]
    if len(results) == 1 and not done:
        raise RegenteError(results[0]["error"]["message"], code=results[0]["error"]["code"])
    if done or call.json:
        call.answer(
            results, lambda: "\n".join(f"Task {one['id']}: {one['status']}." for one in done)
        )
    for one in results:
        if "error" in one:
            output.write_error(one["error"]["code"], one["error"]["message"], as_json=call.json)
    if len(done) < len(results):
        raise typer.Exit(FAILURE_EXIT)
