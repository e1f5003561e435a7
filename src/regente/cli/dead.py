"""`regente dead …`: list, show, retry and discard dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import MAX_ID, IdArgument, LimitOption, YesOption, confirm, unique
from regente.cli.output import Column, figure, plural, shortened, table, when, word
from regente.cli.queries import dead_by_code
from regente.cli.task_view import SnapshotOption, show_task, task_document, write_snapshot
from regente.engine.errors import IllegalTransition, InvalidInput
from regente.engine.models import TaskInfo, as_dict
from regente.redaction import redacted, redacted_text

if TYPE_CHECKING:
    from rich.console import RenderableType

dead = typer.Typer(
    name="dead",
    help="List, retry and discard dead letters: tasks that failed for good.",
    no_args_is_help=True,
)

PAGE = 1000
_EMPTY = "No dead letters."
_COLUMNS = (
    figure("ID"),
    Column("PIPELINE"),
    Column("CODE"),
    word("FAILED AT"),
    Column("MESSAGE"),
)
_BY_CODE = (
    Column("CODE"),
    Column("PIPELINE"),
    figure("TASKS"),
    word("LAST AT"),
    figure("NEWEST ID"),
)
PipelineOption = Annotated[str | None, typer.Option(help="Only of this pipeline.")]
CodeOption = Annotated[str | None, typer.Option(help="Only with this error code.")]
SomeIds = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[ID]...", min=1, max=MAX_ID, help="Ids of dead letters.", show_default=False
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]
Action = Callable[[Regente, Sequence[int]], Awaitable[list[int]]]


@command(dead, "list", example="regente dead list --by-code")
async def list_dead(
    context: CommandContext,
    pipeline: PipelineOption = None,
    code: CodeOption = None,
    by_code: Annotated[bool, typer.Option("--by-code", help="Count by error code.")] = False,
    limit: LimitOption = 50,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
) -> None:
    """List dead letters, newest first, or count them by error code."""
    nothing = "No dead letter matches." if pipeline or code or before else _EMPTY
    async with context.app() as app:
        if by_code:
            groups = await dead_by_code(app, pipeline=pipeline, code=code)
            context.answer(
                groups, lambda: table(_BY_CODE, map(_group_row, groups)) if groups else nothing
            )
            return
        found = await app.tasks(
            statuses=["failed"], pipeline=pipeline, code=code, before_id=before, limit=limit
        )
    context.answer(
        redacted([as_dict(one) for one in found]),
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )
    if len(found) == limit and not context.json:
        output.note(
            f"There may be more: add --before {found[-1].id} for the next page, or --by-code."
        )


@command(dead, "show", example="regente dead show 42 --snapshot page.html > page.html")
async def show(
    context: CommandContext,
    task_id: IdArgument,
    snapshot: SnapshotOption = None,
) -> None:
    """Show a dead letter: arguments, timeline, failures, the last stack, snapshots."""
    async with context.app() as app:
        document = await task_document(app, task_id)
        if document["status"] != "failed":
            raise IllegalTransition(
                f"task {task_id} is {document['status']}, not a dead letter: "
                f"see regente tasks show {task_id}"
            )
        if snapshot is not None:
            await write_snapshot(app, document, snapshot)
            return
    if context.json:
        output.write_json(document)
    else:
        show_task(document)
        output.show(f"\nRetry it with: regente dead retry {task_id}")


@command(dead, "retry", audited="dead.retry", example="regente dead retry --code HTTP_503")
async def retry(
    context: CommandContext,
    ids: SomeIds = None,
    code: CodeOption = None,
    pipeline: PipelineOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
) -> None:
    """Requeue dead letters with all their retries: by id, by code, by pipeline, or all."""
    done = await _act(
        context,
        "Retry",
        Selection(ids, code, pipeline, everything),
        yes,
        partial(Regente.retry_many, by=BY),
    )
    context.answer(
        {"requeued": done}, lambda: f"{plural(len(done), 'dead letter')} back in the queue."
    )


@command(dead, "discard", audited="dead.discard", example="regente dead discard 42 43")
async def discard(
    context: CommandContext,
    ids: SomeIds = None,
    code: CodeOption = None,
    pipeline: PipelineOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
) -> None:
    """Discard dead letters by id, by code, by pipeline, or all: they become canceled."""
    done = await _act(
        context,
        "Discard",
        Selection(ids, code, pipeline, everything),
        yes,
        partial(Regente.discard, by=BY),
    )
    context.answer({"discarded": done}, lambda: f"{plural(len(done), 'dead letter')} discarded.")


class Selection:
    """The chosen dead letters: ids, or all that match the filters."""

    def __init__(
        self, ids: list[int] | None, code: str | None, pipeline: str | None, everything: bool
    ) -> None:
        if not (ids or code or pipeline or everything):
            raise InvalidInput(
                "choose dead letters by ids, --code, --pipeline or --all", code="USAGE"
            )
        if ids and (code or pipeline or everything):
            raise InvalidInput("give either ids or filters, not both", code="USAGE")
        self.ids = unique(ids or [])
        self.code = code
        self.pipeline = pipeline
        self.everything = everything

    async def find(self, app: Regente) -> list[int]:
        if self.ids:
            return self.ids
        found: list[int] = []
        while True:
            before = found[-1] if found else None
            page = await app.tasks(
                statuses=["failed"],
                pipeline=self.pipeline,
                code=self.code,
                before_id=before,
                limit=PAGE,
            )
            found += [task.id for task in page]
            if len(page) < PAGE:
                return found


async def _act(
    context: CommandContext, verb: str, chosen: Selection, yes: bool, act: Action
) -> list[int]:
    async with context.app() as app:
        ids = await chosen.find(app)
        if chosen.everything and ids:
            confirm(f"{verb} {plural(len(ids), 'dead letter')}?", yes=yes, as_json=context.json)
        done: list[int] = []
        with output.progress("Dead letters", len(ids)) as bar:
            for start in range(0, len(ids), PAGE):
                done += await act(app, ids[start : start + PAGE])
                bar.advance(bar.task_ids[0], PAGE)
        if chosen.ids and len(done) < len(ids):
            raise await _not_dead_letters(app, context, sorted(set(ids) - set(done)), done)
    return sorted(done)


async def _not_dead_letters(
    app: Regente, context: CommandContext, rest: list[int], done: list[int]
) -> IllegalTransition:
    """The error for named ids that are no dead letters; what was done stays done."""
    if done:
        output.note(f"done: {', '.join(map(str, sorted(done)))}")
    for task_id in rest[1:]:
        output.write_error(
            "NOT_A_DEAD_LETTER", f"task {task_id} is not a dead letter", as_json=context.json
        )
    task = await app.get(rest[0])
    return IllegalTransition(f"task {rest[0]} is {task.status}, not a dead letter")


def _row(task: TaskInfo) -> tuple[RenderableType, ...]:
    return (
        str(task.id),
        task.pipeline,
        task.error_code or "",
        when(task.finished_at),
        shortened(redacted_text(task.error_message or ""), 200),
    )


def _group_row(group: dict[str, Any]) -> tuple[RenderableType, ...]:
    return (
        group["code"] or "",
        group["pipeline"],
        f"{group['tasks']:,}",
        when(group["last_at"]),
        str(group["newest_id"]),
    )
