"""`regente lanes …`: list, show, set, park and open lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.output import Column, figure, number, status_text, table, when, word
from regente.engine.errors import InvalidInput
from regente.engine.models import LaneInfo, as_dict

if TYPE_CHECKING:
    from rich.console import RenderableType

lanes = typer.Typer(
    name="lanes", help="List, show, set, park and open lanes.", no_args_is_help=True
)

NameArgument = Annotated[
    str, typer.Argument(metavar="LANE", help="The lane's name.", show_default=False)
]
Limit = Annotated[
    str | None, typer.Option(metavar="VALUE", help="A number, or default.", show_default=False)
]
DEFAULT = "default"
_COLUMNS = (
    Column("LANE"),
    word("STATUS"),
    figure("RUNNING"),
    figure("QUEUED"),
    figure("WAITING"),
    figure("LIMIT"),
    figure("RATE"),
    word("BREAKER"),
    word("PARKED UNTIL"),
)


@command(lanes, "list", example="regente lanes list --pipeline pages")
async def list_lanes(
    context: CommandContext,
    pipeline: Annotated[str | None, typer.Option(help="Only lanes of this pipeline.")] = None,
    search: Annotated[str | None, typer.Option(help="Only names that contain this.")] = None,
    after: Annotated[str | None, typer.Option(help="Only names after this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most rows to show.")] = 100,
) -> None:
    """List lanes by name, with what runs and waits in them."""
    async with context.app() as app:
        found = await app.lanes.list(pipeline=pipeline, search=search, after=after, limit=limit)
    nothing = "No lanes. A lane appears with its first task or call: see docs/concepts/lanes.md."
    context.answer(
        [as_dict(one) for one in found],
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )


@command(lanes, "show", example="regente lanes show shop.example")
async def show(context: CommandContext, name: NameArgument) -> None:
    """Show a lane's limits and state."""
    async with context.app() as app:
        found = await app.lanes.show(name)
    context.answer(as_dict(found), lambda: _details(found))


@command(
    lanes,
    "set",
    audited="lanes.set",
    example="regente lanes set shop.example --concurrency 4 --rate 0.5",
)
async def set_limits(
    context: CommandContext,
    name: NameArgument,
    concurrency: Limit = None,
    rate: Limit = None,
    burst: Limit = None,
    min_rate: Limit = None,
    weight: Limit = None,
    breaker: Limit = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Create the lane, with this pipeline's defaults.")
    ] = None,
) -> None:
    """Set limits of a lane; `default` is the pipeline's default again. They count at once."""
    given = {
        "concurrency": _whole("--concurrency", concurrency),
        "rate": _value("--rate", rate),
        "burst": _whole("--burst", burst),
        "min_rate": _value("--min-rate", min_rate),
        "weight": _whole("--weight", weight),
        "breaker": _whole("--breaker", breaker),
    }
    limits: dict[str, Any] = {key: value[0] for key, value in given.items() if value}
    async with context.app() as app:
        found = await app.lanes.set(name, pipeline=pipeline, by=BY, **limits)
    context.answer(as_dict(found), lambda: _details(found))


@command(
    lanes, "park", audited="lanes.park", example="regente lanes park shop.example --seconds 600"
)
async def park(
    context: CommandContext,
    name: NameArgument,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds to park; without it, until the lane is opened.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Shown by `why`.")] = "by an operator",
) -> None:
    """Park a lane: none of its tasks starts; running tasks continue."""
    async with context.app() as app:
        found = await app.lanes.park(name, seconds=seconds, reason=reason, by=BY)
    until = f"until {when(found.parked_until)}" if found.parked_until else "until it is opened"
    context.answer(
        as_dict(found), lambda: f"{name} is parked {until}. Open it with: regente lanes open {name}"
    )


@command(lanes, "open", audited="lanes.open", example="regente lanes open shop.example")
async def open_lane(context: CommandContext, name: NameArgument) -> None:
    """Open a lane: its tasks start again at its full rate; its breaker is closed."""
    async with context.app() as app:
        found = await app.lanes.open(name, by=BY)
    context.answer(as_dict(found), lambda: f"{name} is open.")


def _value(option: str, text: str | None) -> tuple[float | None] | None:
    """The number in a tuple, None in a tuple for the default, None if it is not given."""
    if text is None:
        return None
    if text == DEFAULT:
        return (None,)
    try:
        return (float(text),)
    except ValueError as error:
        raise InvalidInput(f"{option} is a number or {DEFAULT}, not {text!r}") from error


def _whole(option: str, text: str | None) -> tuple[int | None] | None:
    found = _value(option, text)
    if found is None or found[0] is None:
        return None if found is None else (None,)
    if found[0] != int(found[0]):
        raise InvalidInput(f"{option} is a whole number or {DEFAULT}, not {text!r}")
    return (int(found[0]),)


def _row(one: LaneInfo) -> tuple[RenderableType, ...]:
    return (
        one.name,
        status_text(one.status),
        number(one.running),
        number(one.queued),
        number(one.waiting),
        "" if one.concurrency is None else number(one.concurrency),
        "" if one.rate_now is None else f"{one.rate_now:g}/s",
        one.breaker_state,
        "" if one.parked_until is None else when(one.parked_until),
    )


def _details(one: LaneInfo) -> RenderableType:
    limits = {
        "concurrency": one.concurrency,
        "rate": one.rate,
        "burst": one.burst,
        "min_rate": one.min_rate,
        "weight": one.weight,
        "breaker": one.breaker,
    }
    rows = [
        (name, _shown(value), "own" if name in one.own else one.pipeline)
        for name, value in limits.items()
    ]
    rows += [
        ("running", number(one.running), ""),
        ("queued", number(one.queued), ""),
        ("waiting calls", number(one.waiting), ""),
        ("status", one.status, one.parked_because or ""),
        ("rate now", _shown(one.rate_now), ""),
        ("breaker state", one.breaker_state, f"{one.failures} failures in a row"),
    ]
    return table((Column(one.name), figure("VALUE"), Column("FROM")), rows)


def _shown(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g}"
