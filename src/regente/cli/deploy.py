"""`regente deploy check`: would new code understand what tasks in flight have recorded?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.imports import ImportsOption, import_pipelines
from regente.cli.inputs import split_names
from regente.cli.output import Column, figure, plural, table, word
from regente.engine.deploy_check import (
    check_replays,
    count_in_flight,
    installation_of,
    tasks_in_flight,
)
from regente.engine.errors import InvalidInput
from regente.engine.models import ReplayCheck, ReplayVerdict, as_dict
from regente.engine.pipeline import registry

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SHOWN = 100

deploy = typer.Typer(name="deploy", help="Check new code before a deploy.", no_args_is_help=True)

_COLUMNS = (figure("TASK"), Column("PIPELINE"), word("VERDICT"), Column("WHY"))


@command(deploy, "check", example="regente deploy check --import new_shop.pipelines")
async def check(
    context: CommandContext,
    imports: ImportsOption = None,
    pipelines: Annotated[
        str | None, typer.Option(metavar="A,B", help="Check only these; default: all imported.")
    ] = None,
    accept: Annotated[
        str | None, typer.Option(metavar="A,B", help="Verdicts that are no problem this time.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Check the oldest so many tasks.")
    ] = 10_000,
) -> None:
    """Replay the recorded steps of tasks in flight against the imported code.

    Each replay ends at the first step that is not recorded: no step is called, nothing is written.
    Exits with 1 when the new code would not understand a task.
    """
    fine = {"understood", *_verdicts(accept)}
    import_pipelines(imports or [])
    names = [pipeline.name for pipeline in registry.select(split_names(pipelines))]
    async with context.app() as app:
        counts = await count_in_flight(app.database)
        tasks = await tasks_in_flight(app.database, names, limit)
        installation = await installation_of(app.database)
    found = await check_replays(registry, tasks, installation)
    problems = [one for one in found if one.verdict not in fine]
    verdicts = Counter(one.verdict for one in found)
    unchecked = {name: count for name, count in counts.items() if name not in names}
    document = {
        "checked": len(found),
        "in_flight": sum(counts[name] for name in counts if name in names),
        "verdicts": verdicts,
        "unchecked": unchecked,
        "problems": [as_dict(one) for one in problems],
    }
    context.answer(document, lambda: _shown(document, problems))
    if problems:
        raise typer.Exit(FAILURE_EXIT)


def _verdicts(text: str | None) -> list[str]:
    given = split_names(text) or []
    known = get_args(ReplayVerdict)
    if unknown := [one for one in given if one not in known]:
        raise InvalidInput(f"{', '.join(unknown)} is no verdict; known: {', '.join(known)}")
    return given


def _shown(document: dict[str, Any], problems: Sequence[ReplayCheck]) -> RenderableType:
    from rich.console import Group

    verdicts = ", ".join(
        f"{count:,} {verdict}" for verdict, count in document["verdicts"].most_common()
    )
    checked = f"{document['checked']:,} of {plural(document['in_flight'], 'task')} in flight"
    lines: list[RenderableType] = [f"Checked {checked}{': ' if verdicts else '.'}{verdicts}"]
    for name, count in document["unchecked"].items():
        lines.append(f"Not checked: {plural(count, 'task')} of {name}, which is not imported.")
    if problems:
        lines.insert(0, table(_COLUMNS, map(_row, problems[:MAX_SHOWN])))
    if len(problems) > MAX_SHOWN:
        lines.append(f"… {len(problems) - MAX_SHOWN:,} more; --json shows all")
    return Group(*lines)


def _row(one: ReplayCheck) -> tuple[RenderableType, ...]:
    return str(one.task_id), one.pipeline, one.verdict, one.message
