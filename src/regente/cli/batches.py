"""`regente batches …`: ledgers of tasks that belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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

if TYPE_CHECKING:
    from rich.console import RenderableType

batches = typer.Typer(
    name="batches", help="Look at batches, resume, reprocess and cancel them.", no_args_is_help=True
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
async def list_batches(call: CommandContext, limit: LimitOption = 50) -> None:
    """List batches, newest first. DONE counts completed, skipped and canceled tasks."""
    async with call.app() as app:
        found = await app.batches(limit)
    nothing = "No batches yet. Open one with: regente enqueue PIPELINE '{}' --batch NAME"
    call.answer(
        [_document(batch) for batch in found],
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )


@command(batches, "show", example='regente batches show "round 12"')
async def show(call: CommandContext, batch: BatchArgument) -> None:
    """Show one batch: what was accepted, and what became of it."""
    async with call.app() as app:
        found = await app.batch(batch_reference(batch))
    call.answer(_document(found), lambda: facts(_facts(found)))


@command(batches, "resume", example='regente batches resume "round 12"')
async def resume(call: CommandContext, batch: BatchArgument) -> None:
    """Go on where a stalled batch stopped. Of two callers at once one resumes, the
    other learns so."""
    async with call.app() as app:
        answer = await app.resume_batch(batch_reference(batch))
    text = (
        f"Resumed: {plural(answer.released, 'stuck task')} back in the queue."
        if answer.resumed
        else f"Nothing changed: {answer.reason}."
    )
    call.answer(answer, lambda: text)


@command(batches, "reprocess", example='regente batches reprocess "round 12" --code HTTP_503')
async def reprocess(
    call: CommandContext,
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
    async with call.app() as app:
        queued = await app.reprocess_batch(
            batch_reference(batch), codes=code or None, ids=task_id or None
        )
    nothing = "No failed task of this batch matches: nothing was changed."
    call.answer(
        {"requeued": queued},
        lambda: f"{plural(len(queued), 'task')} back in the queue." if queued else nothing,
    )


@command(batches, "cancel", example='regente batches cancel "round 12"')
async def cancel(call: CommandContext, batch: BatchArgument) -> None:
    """Cancel the rest of a batch: what has ended stays as it is."""
    async with call.app() as app:
        counts = await app.cancel_batch(batch_reference(batch))
    call.answer(
        counts,
        lambda: (
            f"{plural(counts['canceled'], 'task')} canceled, {counts['canceling']:,} asked to end."
        ),
    )


def _document(batch: BatchInfo) -> dict[str, Any]:
    return {**as_dict(batch), "balanced": batch.balanced}


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
    return [
        ("Batch", str(batch.id)),
        ("Name", batch.name),
        ("Status", status_text(batch.status)),
        (
            "Total",
            (
                f"{number(batch.total)} "
                f"({'the counts add up' if batch.balanced else 'THE COUNTS DO NOT ADD UP'})"
            ),
        ),
        *((name.capitalize(), number(getattr(batch, name))) for name in counts),
        ("ETA", duration(batch.eta_seconds)),
        (
            "Resumes",
            (
                f"{batch.resumes} of {batch.max_resumes}; stalled after "
                f"{duration(batch.stall_after_seconds)} without progress"
            ),
        ),
        ("Created", when(batch.created_at)),
        ("Progress", when(batch.progress_at)),
        ("Finished", when(batch.finished_at)),
    ]
