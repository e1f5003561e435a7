"""`regente batches …`: list, show, resume, reprocess and cancel batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import MAX_ID, BatchArgument, LimitOption, batch_reference
from regente.cli.output import (
    Column,
    duration,
    facts,
    figure,
    number,
    plural,
    status_text,
    table,
    when,
    word,
)
from regente.engine.models import BatchInfo, as_dict
from regente.redaction import redacted

if TYPE_CHECKING:
    from rich.console import RenderableType

batches = typer.Typer(
    name="batches", help="List, resume, reprocess and cancel batches.", no_args_is_help=True
)

_COLUMNS = (
    figure("ID"),
    Column("NAME"),
    word("STATUS"),
    figure("TOTAL"),
    figure("DONE"),
    figure("FAILED"),
    figure("OPEN"),
    figure("ETA"),
)


@command(batches, "list", example="regente batches list")
async def list_batches(context: CommandContext, limit: LimitOption = 50) -> None:
    """List batches, newest first. DONE counts completed, skipped and canceled tasks."""
    async with context.app() as app:
        found = await app.batches(limit)
    nothing = "No batches yet. Create one with: regente enqueue PIPELINE '{}' --batch NAME"
    context.answer(
        [_document(batch) for batch in found],
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )


@command(batches, "show", example='regente batches show "round 12"')
async def show(context: CommandContext, batch: BatchArgument) -> None:
    """Show a batch: its status and how many of its tasks are in each status."""
    async with context.app() as app:
        found = await app.batch(batch_reference(batch))
    context.answer(_document(found), lambda: facts(_facts(found)))


@command(batches, "resume", audited="batches.resume", example='regente batches resume "round 12"')
async def resume(context: CommandContext, batch: BatchArgument) -> None:
    """Resume a stalled batch. Of two concurrent calls one resumes it, the other changes nothing."""
    async with context.app() as app:
        answer = await app.resume_batch(batch_reference(batch), by=BY)
    text = (
        f"Resumed: {plural(answer.released, 'stuck task')} back in the queue."
        if answer.resumed
        else f"Nothing changed: {answer.reason}."
    )
    context.answer(answer, lambda: text)


@command(
    batches,
    "reprocess",
    audited="batches.reprocess",
    example='regente batches reprocess "round 12" --code HTTP_503',
)
async def reprocess(
    context: CommandContext,
    batch: BatchArgument,
    code: Annotated[
        list[str] | None, typer.Option(help="Only failures with this code. May be repeated.")
    ] = None,
    task_id: Annotated[
        list[int] | None,
        typer.Option("--id", min=1, max=MAX_ID, help="Only this task. May be repeated."),
    ] = None,
) -> None:
    """Retry a batch's failed tasks: all of them, or those with a code or an id."""
    async with context.app() as app:
        queued = await app.reprocess_batch(
            batch_reference(batch), codes=code or None, ids=task_id or None, by=BY
        )
    nothing = "No failed task of this batch matches: nothing changed."
    context.answer(
        {"requeued": queued},
        lambda: f"{plural(len(queued), 'task')} back in the queue." if queued else nothing,
    )


@command(batches, "cancel", audited="batches.cancel", example='regente batches cancel "round 12"')
async def cancel(context: CommandContext, batch: BatchArgument) -> None:
    """Cancel the unfinished tasks of a batch."""
    async with context.app() as app:
        counts = await app.cancel_batch(batch_reference(batch), by=BY)
    context.answer(
        counts,
        lambda: (
            f"{plural(counts['canceled'], 'task')} canceled, {counts['canceling']:,} asked to stop."
        ),
    )


def _document(batch: BatchInfo) -> dict[str, Any]:
    document: dict[str, Any] = redacted({**as_dict(batch), "balanced": batch.balanced})
    return document


def _row(batch: BatchInfo) -> tuple[RenderableType, ...]:
    return (
        str(batch.id),
        batch.name,
        status_text(batch.status),
        number(batch.total),
        number(batch.completed + batch.skipped + batch.canceled),
        number(batch.failed),
        number(batch.draft + batch.queued + batch.running),
        duration(batch.eta_seconds),
    )


def _facts(batch: BatchInfo) -> list[tuple[str, RenderableType | None]]:
    counts = ("completed", "failed", "skipped", "canceled", "running", "queued", "draft")
    balance = "the counts add up" if batch.balanced else "THE COUNTS DO NOT ADD UP"
    stall = duration(batch.stall_after_seconds)
    return [
        ("Batch", str(batch.id)),
        ("Name", batch.name),
        ("Status", status_text(batch.status)),
        ("Total", f"{number(batch.total)} ({balance})"),
        *((name.capitalize(), number(getattr(batch, name))) for name in counts),
        ("ETA", duration(batch.eta_seconds)),
        (
            "Resumes",
            f"{batch.resumes} of {batch.max_resumes}; stalled after {stall} without progress",
        ),
        ("Created", when(batch.created_at)),
        ("Progress", when(batch.progress_at)),
        ("Finished", when(batch.finished_at)),
    ]
