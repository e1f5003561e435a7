"""`regente schedules …`: list, show, add, pause, resume and remove cron schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.imports import ImportsOption, import_modules
from regente.cli.inputs import parse_args
from regente.cli.output import Column, figure, number, status_text, table, when, word
from regente.engine.errors import NotFound
from regente.engine.models import ScheduleRun, as_dict
from regente.engine.schedule_operations import CatchUp, Overlap

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

schedules = typer.Typer(
    name="schedules",
    help="List, show, add, pause, resume and remove cron schedules.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]

_COLUMNS = (
    Column("NAME"),
    Column("PIPELINE"),
    word("CRON"),
    Column("TIME ZONE"),
    word("STATE"),
    word("NEXT"),
    figure("LAST TASK"),
    word("LAST STATUS"),
)
_RUNS = (
    word("DUE"),
    word("STATE"),
    figure("TIMES"),
    figure("TASK"),
    word("TASK STATUS"),
    Column("ERROR"),
)


@command(schedules, "list", example="regente schedules list")
async def list_schedules(context: CommandContext) -> None:
    """List schedules with their last and next run."""
    async with context.app() as app:
        found = await app.schedules()
    nothing = 'No schedules yet. Add one with: regente schedules add NAME PIPELINE "0 4 * * *"'
    context.answer(found, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(schedules, "show", example="regente schedules show nightly --count 10")
async def show(
    context: CommandContext,
    name: NameArgument,
    count: Annotated[int, typer.Option(min=1, max=100, help="So many of the next times.")] = 5,
) -> None:
    """Show a schedule and its next times."""
    async with context.app() as app:
        times = await app.next_runs(name, count)
        found = next((row for row in await app.schedules() if row["name"] == name), None)
    if found is None:
        raise NotFound(f"there is no schedule {name!r}")
    context.answer({**found, "next_runs": times}, lambda: _details(found, times))


@command(schedules, "runs", example="regente schedules runs nightly --limit 20")
async def runs(
    context: CommandContext,
    name: NameArgument,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List what became of a schedule's times, the latest first."""
    async with context.app() as app:
        found = await app.schedule_runs(name, limit=limit)
    context.answer(
        [as_dict(one) for one in found],
        lambda: table(_RUNS, map(_run, found)) if found else f"{name} has not fired yet.",
    )


@command(
    schedules,
    "add",
    audited="schedules.add",
    example="""regente schedules add nightly prices "0 4 * * *" '{"shop": 7}' """
    "--timezone America/Sao_Paulo",
)
async def add(
    context: CommandContext,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A schedule of the same name is replaced.")
    ],
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline to run.")],
    cron: Annotated[
        str, typer.Argument(metavar="CRON", help="Minute, hour, day, month, weekday, in quotes.")
    ],
    args: Annotated[
        str | None, typer.Argument(metavar="[ARGS_JSON]", help="Arguments of each task.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of the cron expression.")] = "UTC",
    priority: Annotated[int, typer.Option(help="Higher comes first.")] = 0,
    overlap: Annotated[
        Overlap,
        typer.Option(help="A time that comes while the previous run is unfinished."),
    ] = "allow",
    catch_up: Annotated[
        CatchUp, typer.Option(help="How many of the times that were missed are run.")
    ] = "one",
    jitter: Annotated[
        float, typer.Option(metavar="SECONDS", help="Start up to so much later, at random.")
    ] = 0.0,
    due_as: Annotated[
        str | None,
        typer.Option(metavar="ARGUMENT", help="The argument that gets the run's own time."),
    ] = None,
    imports: ImportsOption = None,
) -> None:
    """Add or replace a schedule that enqueues a task at each time of a cron expression."""
    import_modules(imports or [])
    async with context.app() as app:
        first = await app.schedule(
            name,
            pipeline,
            cron,
            parse_args(args),
            timezone=timezone,
            priority=priority,
            overlap=overlap,
            catch_up=catch_up,
            jitter=jitter,
            due_as=due_as,
        )
    context.answer(
        {"name": name, "next_at": first}, lambda: f"{name} fires first at {when(first)}."
    )


@command(schedules, "pause", audited="schedules.pause", example="regente schedules pause nightly")
async def pause(context: CommandContext, name: NameArgument) -> None:
    """Pause a schedule: it queues no more tasks. Those that it has queued stay."""
    async with context.app() as app:
        await app.pause_schedule(name, by=BY)
    context.answer(
        {"paused": name}, lambda: f"{name} is paused. Resume it: regente schedules resume {name}"
    )


@command(
    schedules,
    "resume",
    audited="schedules.resume",
    example="regente schedules resume nightly --skip-missed",
)
async def resume(
    context: CommandContext,
    name: NameArgument,
    skip_missed: Annotated[
        bool, typer.Option("--skip-missed", help="Run none of the times that came meanwhile.")
    ] = False,
) -> None:
    """Resume a schedule. Of the times that came meanwhile those of its catch-up are run."""
    async with context.app() as app:
        await app.resume_schedule(name, skip_missed=skip_missed, by=BY)
    context.answer({"resumed": name}, lambda: f"{name} is resumed.")


@command(
    schedules, "remove", audited="schedules.remove", example="regente schedules remove nightly"
)
async def remove(context: CommandContext, name: NameArgument) -> None:
    """Remove a schedule. The tasks that it enqueued stay."""
    async with context.app() as app:
        await app.unschedule(name)
    context.answer({"removed": name}, lambda: f"{name} is removed.")


def _row(one: dict[str, Any]) -> tuple[RenderableType, ...]:
    return (
        one["name"],
        one["pipeline"],
        one["cron"],
        one["timezone"],
        status_text(one["state"]),
        when(one["next_at"]) if one["state"] == "enabled" else "",
        str(one["last_task"] or ""),
        status_text(one["last_status"] or ""),
    )


def _run(one: ScheduleRun) -> tuple[RenderableType, ...]:
    return (
        when(one.due_at),
        status_text(one.state),
        number(one.times),
        str(one.task_id or ""),
        status_text(one.task_status or ""),
        one.error_code or "",
    )


def _details(one: dict[str, Any], times: list[datetime]) -> RenderableType:
    rules = (
        "pipeline",
        "cron",
        "timezone",
        "overlap",
        "catch_up",
        "jitter_seconds",
        "due_as",
        "state",
    )
    rows = [(name.replace("_", " "), str(one[name] or "")) for name in rules]
    rows.append(("runs that wait", number(one["waiting"])))
    rows.append(("last task", f"{one['last_task'] or ''} {one['last_status'] or ''}".strip()))
    rows += [("next" if place == 0 else "", when(time)) for place, time in enumerate(times)]
    return table((Column(one["name"]), Column("VALUE")), rows)
