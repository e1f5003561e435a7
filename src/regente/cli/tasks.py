"""`regente tasks …`: list, show, retry, cancel and queue tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.imports import ImportsOption, import_modules
from regente.cli.inputs import (
    MAX_ID,
    IdArgument,
    IdsArgument,
    LimitOption,
    YesOption,
    batch_reference,
    parse_args,
    parse_json,
    parse_time,
    unique,
)
from regente.cli.output import Column, figure, number, status_text, table, when, word
from regente.cli.task_selection import (
    AllOption,
    BatchOption,
    Chosen,
    CodeOption,
    DryRunOption,
    PipelineOption,
    SomeIds,
    StatusOption,
)
from regente.cli.task_view import SnapshotOption, show_task, task_document, write_snapshot
from regente.engine.errors import InvalidInput, RegenteError
from regente.engine.models import (
    STATUSES,
    BatchInfo,
    Decision,
    SignalWaitInfo,
    TaskInfo,
    as_dict,
)
from regente.redaction import redacted

if TYPE_CHECKING:
    from rich.console import RenderableType

tasks = typer.Typer(
    name="tasks",
    help="List, show, retry, cancel, change, signal and resolve tasks.",
    no_args_is_help=True,
)

_DECISION_COLUMNS = (figure("ID"), Column("PIPELINE"), Column("STEP"), word("CALLED"))
_WAITING_COLUMNS = (
    figure("ID"),
    Column("PIPELINE"),
    Column("SIGNAL"),
    word("SINCE"),
    word("UNTIL"),
    Column("REFUSED"),
)
_CHILDREN_COLUMNS = (
    figure("BATCH"),
    Column("STEP"),
    word("STATUS"),
    word("ENDED"),
    figure("FAILED"),
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
    context: CommandContext,
    pipeline: Annotated[str | None, typer.Option(help="Only of this pipeline.")] = None,
    status: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(STATUSES)}. May be repeated.")
    ] = None,
    batch: Annotated[str | None, typer.Option(help="Only of this batch: its id or name.")] = None,
    code: Annotated[str | None, typer.Option(help="Only with this code of the last error.")] = None,
    limit: LimitOption = 50,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
) -> None:
    """List tasks, newest first."""
    async with context.app() as app:
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
    context.answer(
        redacted([as_dict(one) for one in found]),
        lambda: task_table(found) if found else _nothing(filtered),
    )
    if len(found) == limit and not context.json:
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
        return "No task matches. Remove a filter, or list all with: regente tasks list"
    return 'No tasks yet. Enqueue one with: regente enqueue PIPELINE \'{"some": "argument"}\''


@command(tasks, "show", example="regente tasks show 42")
async def show(
    context: CommandContext, task_id: IdArgument, snapshot: SnapshotOption = None
) -> None:
    """Show a task: arguments, result, steps, timeline, failures, the last stack, snapshots."""
    async with context.app() as app:
        document = await task_document(app, task_id)
        if snapshot is not None:
            await write_snapshot(app, document, snapshot)
            return
    if context.json:
        output.write_json(document)
    else:
        show_task(document)


@command(tasks, "why", example="regente tasks why 42")
async def why(context: CommandContext, task_id: IdArgument) -> None:
    """Explain why a task is not running, or its state."""
    async with context.app() as app:
        answer = await app.why(task_id)
    context.answer(
        {"id": task_id, "code": answer.code, "summary": answer.summary, "details": answer.details},
        lambda: answer.summary,
    )


@command(tasks, "children", example="regente tasks children 42")
async def children(context: CommandContext, task_id: IdArgument, limit: LimitOption = 50) -> None:
    """List the batches of tasks that the steps of a task have spawned, newest first."""
    async with context.app() as app:
        found = await app.children(task_id, limit)
    context.answer(
        found,
        lambda: (
            table(_CHILDREN_COLUMNS, map(_children_row, found))
            if found
            else f"Task {task_id} has spawned no tasks."
        ),
    )


def _children_row(one: BatchInfo) -> tuple[RenderableType, ...]:
    ended = f"{one.total - one.draft - one.queued - one.running} of {one.total}"
    failed = number(one.failed)
    return (str(one.id), one.parent_step or "", status_text(one.status), ended, failed)


@command(tasks, "retry", audited="tasks.retry", example="regente tasks retry 42 43")
async def retry(
    context: CommandContext,
    ids: SomeIds = None,
    pipeline: PipelineOption = None,
    status: StatusOption = None,
    batch: BatchOption = None,
    code: CodeOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Requeue failed, canceled or skipped tasks with all their retries; keep finished steps."""
    chosen = Chosen(ids, pipeline, status, batch, code, everything)

    async def act(app: Regente, task_id: int) -> str:
        await app.retry(task_id, by=BY)
        return "queued"

    if chosen.by_filter:
        await chosen.act(context, "retry", lambda all_: all_.retry(by=BY), dry_run=dry_run, yes=yes)
    else:
        await _each(context, chosen.named(dry_run), act)


@command(tasks, "cancel", audited="tasks.cancel", example="regente tasks cancel 42")
async def cancel(
    context: CommandContext,
    ids: SomeIds = None,
    pipeline: PipelineOption = None,
    status: StatusOption = None,
    batch: BatchOption = None,
    code: CodeOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Cancel tasks: queued ones end at once, running ones are asked to stop."""
    chosen = Chosen(ids, pipeline, status, batch, code, everything)
    if chosen.by_filter:
        await chosen.act(
            context, "cancel", lambda all_: all_.cancel(by=BY), dry_run=dry_run, yes=yes
        )
    else:
        named = chosen.named(dry_run)
        await _each(context, named, lambda app, task_id: app.cancel(task_id, by=BY))


@command(tasks, "change", audited="tasks.change", example="regente tasks change 42 --priority 5")
async def change(
    context: CommandContext,
    ids: SomeIds = None,
    pipeline: PipelineOption = None,
    status: StatusOption = None,
    batch: BatchOption = None,
    code: CodeOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    *,
    priority: Annotated[int | None, typer.Option(help="Higher comes first.")] = None,
    run_at: Annotated[
        str | None, typer.Option(help="Not before this time, like 2030-01-31T18:00:00Z, or: now.")
    ] = None,
    lane: Annotated[str | None, typer.Option(help="What it shares limits with.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Attempts before it fails.")] = None,
    args: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Its arguments, before its first attempt; - reads stdin."
        ),
    ] = None,
    imports: ImportsOption = None,
) -> None:
    """Change queued tasks and drafts: priority, time, lane, attempts, arguments.

    With --import the arguments are validated against the pipeline's type, which also tells the
    lane; without, against what its runners have registered.
    """
    chosen = Chosen(ids, pipeline, status, batch, code, everything)
    changes = given_changes(priority, run_at, lane, max_attempts)
    if args is not None:
        if chosen.by_filter:
            raise InvalidInput("--args are those of tasks that are named by ids", code="USAGE")
        changes["args"] = parse_args(args)
    if not changes:
        raise InvalidInput("say what is to be changed, like --priority 5", code="USAGE")
    import_modules(imports or [])

    async def act(app: Regente, task_id: int) -> str:
        await app.change(task_id, by=BY, **changes)
        return "changed"

    if chosen.by_filter:
        await chosen.act(
            context, "change", lambda all_: all_.change(by=BY, **changes), dry_run=dry_run, yes=yes
        )
    else:
        await _each(context, chosen.named(dry_run), act)


def given_changes(
    priority: int | None, run_at: str | None, lane: str | None, max_attempts: int | None
) -> dict[str, Any]:
    given: dict[str, Any] = {"priority": priority, "lane": lane, "max_attempts": max_attempts}
    changes = {name: value for name, value in given.items() if value is not None}
    if run_at is not None:
        changes["run_at"] = None if run_at == "now" else parse_time(run_at)
    return changes


@command(tasks, "decisions", example="regente tasks decisions")
async def decisions(context: CommandContext, limit: LimitOption = 50) -> None:
    """List calls whose outcome is unknown: their tasks wait for `regente tasks resolve`."""
    async with context.app() as app:
        found = await app.decisions(limit=limit)
    rows = ((str(one.task_id), one.pipeline, _place(one), when(one.called_at)) for one in found)
    context.answer(
        found,
        lambda: table(_DECISION_COLUMNS, rows) if found else "Nothing waits for a decision.",
    )


@command(tasks, "resolve", audited="tasks.resolve", example="regente tasks resolve 42 PAY --retry")
async def resolve(
    context: CommandContext,
    task_id: IdArgument,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step.", show_default=False)],
    item: Annotated[
        int | None, typer.Option(min=0, max=MAX_ID, help="The element of a durable loop.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Make the call again.")] = False,
    result: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The call's result, as JSON."),
    ] = None,
) -> None:
    """Decide on a call whose outcome is unknown: make it again, or give its result."""
    given = {} if result is None else {"result": parse_json(result)}
    async with context.app() as app:
        await app.resolve(task_id, step, item=item, retry=retry, by=BY, **given)
        still = await app.decisions(task_id=task_id)
    context.answer(
        {"id": task_id, "step": step, "item": item, "undecided": len(still)},
        lambda: (
            f"Task {task_id}: decided; {output.plural(len(still), 'decision')} left."
            if still
            else f"Task {task_id}: decided, it continues."
        ),
    )


@command(
    tasks,
    "signal",
    audited="tasks.signal",
    example="regente tasks signal 42 approval '{\"approved\": true}'",
)
async def signal(
    context: CommandContext,
    task_id: IdArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal.", show_default=False)],
    payload: Annotated[str, typer.Argument(metavar="JSON", help="The payload, as JSON.")] = "null",
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: a second signal with it is not stored.")
    ] = None,
) -> None:
    """Send a signal to a task, which receives it once, now or when it waits for it."""
    async with context.app() as app:
        sent = await app.signal(task_id, name, parse_json(payload), key=key, by=BY)
    context.answer(
        {"id": task_id, "signal": name, "signal_id": sent},
        lambda: f"Task {task_id}: {name} sent.",
    )


@command(tasks, "waiting", example="regente tasks waiting --signal approval")
async def waiting(
    context: CommandContext,
    signal: Annotated[str | None, typer.Option(help="Only for this signal.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List tasks that wait for a signal, the longest wait first."""
    async with context.app() as app:
        found = await app.waiting(signal=signal, limit=limit)
    context.answer(
        found,
        lambda: (
            table(_WAITING_COLUMNS, map(_wait_row, found))
            if found
            else "No task waits for a signal."
        ),
    )


def _wait_row(one: SignalWaitInfo) -> tuple[str, ...]:
    times = (when(one.since), when(one.until))
    return (str(one.task_id), one.pipeline, one.signal, *times, one.refused or "")


def _place(one: Decision) -> str:
    return one.step if one.item is None else f"{one.step} item {one.item}"


@command(tasks, "queue", audited="tasks.queue", example="regente tasks queue 42 43")
async def queue(context: CommandContext, ids: IdsArgument) -> None:
    """Queue drafts."""
    async with context.app() as app:
        moved = await app.queue(unique(ids), by=BY)
    stayed = [task_id for task_id in unique(ids) if task_id not in moved]
    context.answer(
        {"queued": moved, "not_drafts": stayed},
        lambda: f"{output.plural(len(moved), 'draft')} queued.",
    )
    if stayed:
        if not context.json:
            output.note(f"Not drafts: {', '.join(map(str, stayed))}.")
        raise typer.Exit(FAILURE_EXIT)


async def _each(
    context: CommandContext, ids: list[int], act: Callable[[Regente, int], Awaitable[str]]
) -> None:
    """Act on every id, also after one that fails, and print the results."""
    chosen = unique(ids)
    async with context.app() as app:
        results = [await _result(app, task_id, act) for task_id in chosen]
        errors = [one["error"] for one in results if "error" in one]
        if errors and len(results) == 1:
            raise RegenteError(errors[0]["message"], code=errors[0]["code"])
    done = [one for one in results if "error" not in one]
    if done or context.json:
        context.answer(
            results, lambda: "\n".join(f"Task {one['id']}: {one['status']}." for one in done)
        )
    for error in errors:
        output.write_error(error["code"], error["message"], as_json=context.json)
    if errors:
        raise typer.Exit(FAILURE_EXIT)


async def _result(
    app: Regente, task_id: int, act: Callable[[Regente, int], Awaitable[str]]
) -> dict[str, Any]:
    try:
        return {"id": task_id, "status": await act(app, task_id)}
    except RegenteError as error:
        return {"id": task_id, "error": {"code": error.code, "message": error.message}}
