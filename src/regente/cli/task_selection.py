"""Acts on all tasks that match the options of a command, after a preview and a question."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from regente.cli.command import CommandContext
from regente.cli.inputs import MAX_ID, batch_reference, confirm
from regente.cli.output import plural
from regente.engine.errors import InvalidInput
from regente.engine.models import STATUSES, SelectionPreview
from regente.engine.task_selection import Action, TaskSelection

ANY = "Instead of ids: "
SomeIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="[ID]...", min=1, max=MAX_ID, help="Ids of tasks.", show_default=False),
]
PipelineOption = Annotated[str | None, typer.Option(help=f"{ANY}all of this pipeline.")]
StatusOption = Annotated[
    list[str] | None, typer.Option(help=f"{ANY}all with one of {', '.join(STATUSES)}.")
]
BatchOption = Annotated[str | None, typer.Option(help=f"{ANY}all of this batch, by id or name.")]
CodeOption = Annotated[str | None, typer.Option(help=f"{ANY}all with this error code.")]
AllOption = Annotated[bool, typer.Option("--all", help=f"{ANY}all tasks.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be changed, and change nothing.")
]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Ids, or a filter: one of the two."""

    ids: list[int] | None
    pipeline: str | None
    status: list[str] | None
    batch: str | None
    code: str | None
    everything: bool

    def __post_init__(self) -> None:
        if bool(self.ids) == self.by_filter:
            raise InvalidInput(
                "choose tasks either by ids or by --pipeline, --status, --batch, --code or --all",
                code="USAGE",
            )

    @property
    def by_filter(self) -> bool:
        return bool(self.pipeline or self.status or self.batch or self.code or self.everything)

    def named(self, dry_run: bool) -> list[int]:
        if dry_run:
            raise InvalidInput("--dry-run is for tasks that options choose", code="USAGE")
        return self.ids or []

    async def act(
        self,
        context: CommandContext,
        action: Action,
        apply: Callable[[TaskSelection], Awaitable[int]],
        *,
        dry_run: bool,
        yes: bool,
    ) -> None:
        """Preview; then, unless it is all that was asked for, ask and apply."""
        if dry_run:  # nothing for the audit log
            context = dataclasses.replace(context, action=None)
        async with context.app() as app:
            batch_id = (await app.batch(batch_reference(self.batch))).id if self.batch else None
            selection = app.select_tasks(
                pipeline=self.pipeline,
                statuses=self.status or None,
                batch_id=batch_id,
                code=self.code,
                everything=self.everything,
            )
            preview = await selection.preview(action)
            if dry_run:
                context.answer(preview, lambda: _told(preview))
                return
            if preview.would_change:
                question = f"{action.capitalize()} {plural(preview.would_change, 'task')}?"
                confirm(f"{_told(preview)}\n{question}", yes=yes, as_json=context.json)
            done = await apply(selection)
        answer: dict[str, Any] = {"action": action, "changed": done}
        context.answer(answer, lambda: f"{action}: {plural(done, 'task')}.")


def _told(preview: SelectionPreview) -> str:
    states = ", ".join(f"{count} {status}" for status, count in preview.by_status.items())
    return (
        f"{plural(preview.total, 'task')} match{'' if preview.total != 1 else 'es'}"
        f"{f' ({states})' if states else ''}; "
        f"{preview.action} would change {preview.would_change} of them."
    )
