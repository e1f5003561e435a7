"""`regente enqueue`: enqueue a task."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from regente.cli.command import CommandContext, command
from regente.cli.imports import ImportsOption, import_modules
from regente.cli.inputs import batch_reference, parse_args, parse_time, parse_unique
from regente.engine.enqueue import BY_PIPELINE


class OnConflictChoice(Enum):
    RETURN = "return"
    REPLACE = "replace"
    ERROR = "error"


def add_to(root: typer.Typer) -> None:
    example = """regente enqueue prices '{"product": 7}' --batch monday --key product-7"""
    command(root, "enqueue", example=example)(enqueue)


async def enqueue(
    context: CommandContext,
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="The pipeline to run.", show_default=False)
    ],
    args: Annotated[
        str | None,
        typer.Argument(metavar="[ARGS_JSON]", help="Arguments as a JSON object; - reads stdin."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Unique key: a second task with it is not stored.")
    ] = None,
    unique: Annotated[
        str,
        typer.Option(help="How long the key is taken: ever, until_done, until_started or 24h."),
    ] = "ever",
    on_conflict: Annotated[
        OnConflictChoice,
        typer.Option(help="When it is taken: return that task's id, replace it, or an error."),
    ] = OnConflictChoice.RETURN,
    priority: Annotated[int, typer.Option(help="Higher comes first.")] = 0,
    run_at: Annotated[
        str | None, typer.Option(help="Not before this time, like 2030-01-31T18:00:00Z.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(help="A batch's id or name; a new name creates a batch.")
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Store a draft, to be queued by `regente tasks queue`.")
    ] = False,
    lane: Annotated[
        str | None,
        typer.Option(help="The lane, whose limits it shares; by default the pipeline computes it."),
    ] = None,
    imports: ImportsOption = None,
) -> None:
    """Enqueue a task. It is durable when the command returns.

    A pipeline is known once a runner has served it; before that, --import the module that defines
    it. With --import the arguments are validated against the pipeline's type, too.
    """
    values, due = parse_args(args), parse_time(run_at)
    import_modules(imports or [])
    into = batch_reference(batch) if batch is not None else None
    async with context.app() as app:
        task_id = await app.enqueue(
            pipeline,
            values,
            key=key,
            unique=parse_unique(unique),
            on_conflict=on_conflict.value,
            priority=priority,
            run_at=due,
            batch=into,
            draft=draft,
            lane=BY_PIPELINE if lane is None else lane,
        )
        task = await app.get(task_id)
    document = {
        "id": task_id,
        "created": task_id.created,
        "pipeline": pipeline,
        "status": task.status,
        "batch_id": task.batch_id,
    }
    context.answer(
        document,
        lambda: (
            f"Task {task_id}{'' if task_id.created else ', which has the key,'} is {task.status}. "
            f"Follow it with: regente tasks show {task_id}"
        ),
    )
