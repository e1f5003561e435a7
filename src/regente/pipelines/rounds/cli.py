"""`regente rounds …`: start and show a league's rounds, retry missing matches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli import output
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.inputs import MAX_ID, LimitOption
from regente.cli.output import (
    Column,
    facts,
    figure,
    group,
    heading,
    plural,
    status_text,
    table,
    when,
    word,
)
from regente.engine.errors import InvalidInput, NotFound
from regente.engine.models import as_dict
from regente.pipelines.rounds.load_adapters import KnownSite, known_sites
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.parsing import parse_match, parse_round
from regente.pipelines.rounds.read_models import Round, RoundMatch, StoredMatch
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.states import OPEN, JobState
from regente.queries import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

rounds = typer.Typer(
    name="rounds",
    help="Start and show a league's rounds, retry missing matches.",
    no_args_is_help=True,
)
POLL_SECONDS = 0.5
_ROUNDS = (
    figure("ID"),
    Column("LEAGUE"),
    figure("ROUND"),
    word("STATUS"),
    figure("MATCHES"),
    figure("FINISHED"),
    figure("OPEN"),
    figure("FAILED"),
    figure("OTHER"),
    Column("ERROR"),
)
_MATCHES = (
    word("MATCH"),
    word("STATUS"),
    Column("HOME"),
    figure("SCORE"),
    Column("AWAY"),
    figure("EVENTS"),
    figure("STATS"),
    figure("ATTEMPTS"),
    Column("ERROR"),
)

LeagueArgument = Annotated[
    str,
    typer.Argument(metavar="LEAGUE", help="The league, like brasileirao-2025.", show_default=False),
]
NumberArgument = Annotated[
    int,
    typer.Argument(
        metavar="ROUND", min=1, max=1000, help="The round's number.", show_default=False
    ),
]
RoundId = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The round's id.", show_default=False)
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Wait until the round has ended.")
]


@command(
    rounds,
    "start",
    audited="rounds.start",
    example="regente rounds start brasileirao-2025 12 --follow",
)
async def start(
    context: CommandContext,
    league: LeagueArgument,
    number: NumberArgument,
    follow: FollowOption = False,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Read a known round's page again, for new matches."),
    ] = False,
) -> None:
    """Start a round, unless it was started before. --follow exits with 1 if a match is missing."""
    async with context.app("rounds") as app:
        operations = RoundOperations(app)
        found = await operations.start(league, number, refresh=refresh)
        if follow:
            await _follow(context, operations, found.id)
            return
    text = (
        f"Round {found.number} of {found.league} is {found.status}. "
        f"Show it with: regente rounds show {found.id}"
    )
    context.answer(found, lambda: text)


@command(rounds, "list", example="regente rounds list --league brasileirao-2025")
async def list_rounds(
    context: CommandContext,
    league: Annotated[str | None, typer.Option(help="Only of this league.")] = None,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List rounds, newest first. OTHER counts skipped, canceled and missing matches."""
    async with context.app("rounds") as app:
        found = await RoundOperations(app).find(league=league, before_id=before, limit=limit)
    nothing = "No rounds yet. Start one with: regente rounds start brasileirao-2025 12"
    context.answer(
        found,
        lambda: table(_ROUNDS, map(_round_row, found)) if found else nothing,
    )


@command(rounds, "show", example="regente rounds show 1")
async def show(
    context: CommandContext,
    round_id: RoundId,
    match: Annotated[
        str | None,
        typer.Option(metavar="MATCH", help="Only this match, in detail."),
    ] = None,
) -> None:
    """Show a round and its matches; with --match, a match's events, stats and failed attempts."""
    async with context.app("rounds") as app:
        operations = RoundOperations(app)
        if match is not None:
            detail = await operations.match(round_id, match)
            failures = await app.failures(detail.task_id)
            context.answer(
                _match_document(detail, failures), lambda: _match_shown(detail, failures)
            )
            return
        found, matches = await operations.get(round_id), await operations.matches(round_id)
    context.answer(_document(found, matches), lambda: _shown(found, matches))


@command(
    rounds,
    "retry-failed",
    audited="rounds.retry_failed",
    example="regente rounds retry-failed 1 --code HTTP_503",
)
async def retry_failed(
    context: CommandContext,
    round_id: Annotated[
        int | None,
        typer.Argument(
            metavar="[ID]",
            min=1,
            max=MAX_ID,
            help="The round's id. [default: all rounds]",
            show_default=False,
        ),
    ] = None,
    code: Annotated[
        list[str] | None, typer.Option(help="Only failures with this code. May be repeated.")
    ] = None,
    follow: FollowOption = False,
) -> None:
    """Retry failed, canceled, skipped and missing matches. Stored matches stay unchanged."""
    async with context.app("rounds") as app:
        operations = RoundOperations(app)
        done = await operations.retry_failed(round_id, codes=code, by=BY)
        if follow and round_id is not None:
            await _follow(context, operations, round_id)
            return
    nothing = "Nothing is missing: nothing changed."
    text = f"{plural(len(done.task_ids), 'task')} back in the queue."
    context.answer(as_dict(done), lambda: text if done.task_ids else nothing)


@command(rounds, "sites", example="regente rounds sites")
async def sites(context: CommandContext) -> None:
    """List the sites of leagues: those that come with Regente, of packages and of settings."""
    found = known_sites(RoundSettings().sites)
    columns = (word("SITE"), Column("LEAGUES"), Column("BASE URL"), Column("ADAPTER"))
    context.answer([_site(one) for one in found], lambda: table(columns, map(_site_row, found)))


@command(
    rounds,
    "try-site",
    example="regente rounds try-site placar placar-2025 12 --round round.html --match match.html",
)
async def try_site(
    context: CommandContext,
    site: Annotated[
        str,
        typer.Argument(
            metavar="SITE", help="The site's name, as in `rounds sites`.", show_default=False
        ),
    ],
    league: LeagueArgument,
    number: NumberArgument,
    round_page: Annotated[
        Path | None, typer.Option("--round", metavar="FILE", help="A saved page of the round.")
    ] = None,
    match_page: Annotated[
        Path | None, typer.Option("--match", metavar="FILE", help="A saved page of a match.")
    ] = None,
) -> None:
    """Parse saved pages with a site's adapter and check them, without storing anything."""
    known = {one.name: one for one in known_sites(RoundSettings().sites)}
    if site not in known:
        raise NotFound(f"there is no site {site}; known: {', '.join(known)}")
    chosen = known[site]
    url = chosen.adapter.base_url.rstrip("/") + "/"
    url += chosen.adapter.round_url(league, number).lstrip("/")
    found: dict[str, Any] = {}
    if round_page is not None:
        html = _saved(round_page)
        found["round"] = parse_round(chosen.reference, html, url, league, str(number))
    if match_page is not None:
        found["match"] = parse_match(chosen.reference, _saved(match_page), url, league)
    answer = {name: one.model_dump(mode="json") for name, one in found.items()}
    context.answer(answer, lambda: json.dumps(answer, indent=2, ensure_ascii=False))


def _site(one: KnownSite) -> dict[str, Any]:
    return {
        "name": one.name,
        "leagues": list(one.adapter.leagues),
        "base_url": one.adapter.base_url,
        "adapter": one.reference,
    }


def _site_row(one: KnownSite) -> tuple[RenderableType, ...]:
    return one.name, ", ".join(one.adapter.leagues), one.adapter.base_url, one.reference


def _saved(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None


async def _follow(context: CommandContext, operations: RoundOperations, round_id: int) -> None:
    """Wait until the round has ended, and show it. An interruption does not stop the round."""
    found = await operations.get(round_id)
    with output.progress(f"round {found.number} of {found.league}", found.listed) as bar:
        while found.status in OPEN:
            await asyncio.sleep(POLL_SECONDS)
            found = await operations.get(round_id)
            bar.update(
                bar.task_ids[0],
                completed=found.listed - found.pending - found.running,
                total=found.listed,
            )
    matches = await operations.matches(round_id)
    context.answer(_document(found, matches), lambda: _shown(found, matches))
    if found.status is not JobState.FINISHED:
        raise typer.Exit(FAILURE_EXIT)


def _document(found: Round, matches: list[RoundMatch]) -> dict[str, Any]:
    return {**found.model_dump(), "matches": matches}


def _match_document(one: StoredMatch, failures: list[Row]) -> dict[str, Any]:
    match = set(RoundMatch.model_fields)
    return {
        "match": one.model_dump(include=match),
        **one.model_dump(exclude=match),
        "failures": failures,
    }


def _round_row(one: Round) -> tuple[RenderableType, ...]:
    other = one.skipped + one.canceled + one.missing
    return (
        str(one.id),
        one.league,
        str(one.number),
        _state(one.status),
        str(one.listed),
        str(one.finished),
        str(one.pending + one.running),
        str(one.failed),
        str(other),
        one.error_code or "",
    )


def _match_row(one: RoundMatch) -> tuple[RenderableType, ...]:
    score = "" if one.home_goals is None else f"{one.home_goals} x {one.away_goals}"
    return (
        one.match_id,
        _state(one.status),
        one.home or "",
        score,
        one.away or "",
        _number(one.events),
        _number(one.stats),
        str(one.attempt_count),
        _failure(one),
    )


def _shown(found: Round, matches: list[RoundMatch]) -> RenderableType:
    about: list[tuple[str, RenderableType | None]] = [
        ("Round", f"{found.number} of {found.league}"),
        ("Id", str(found.id)),
        ("Status", _state(found.status)),
        ("Matches", f"{found.finished} of {found.listed} stored"),
        ("Error", _error(found.error_code, found.error_message)),
        ("Discovered", when(found.discovered_at)),
        ("Task", str(found.task_id or "")),
        ("Batch", str(found.batch_id or "")),
    ]
    parts: list[RenderableType] = [facts(about)]
    if matches:
        parts += [heading("Matches"), table(_MATCHES, map(_match_row, matches))]
    return group(*parts)


def _match_shown(one: StoredMatch, failures: list[Row]) -> RenderableType:
    score = (
        ""
        if one.home_goals is None
        else f"{one.home} {one.home_goals} x {one.away_goals} {one.away}"
    )
    about: list[tuple[str, RenderableType | None]] = [
        ("Match", one.match_id),
        ("Status", _state(one.status)),
        ("Score", score),
        ("Kick-off", when(one.kickoff_at)),
        ("Venue", one.venue),
        ("Attendance", _number(one.attendance)),
        ("Attempts", str(one.attempt_count)),
        ("Error", _error(one.error_code, one.error_message)),
        ("Reason", one.reason),
        ("Task", str(one.task_id)),
        ("Page", one.url),
    ]
    parts: list[RenderableType] = [facts(about)]
    if one.event_list:
        rows = [
            (str(event.minute), event.kind, event.side, event.player) for event in one.event_list
        ]
        parts += [
            heading("Events"),
            table((figure("MINUTE"), word("KIND"), word("SIDE"), Column("PLAYER")), rows),
        ]
    if one.stat_list:
        stats = [(stat.name, stat.side, str(stat.value)) for stat in one.stat_list]
        parts += [heading("Stats"), table((word("STAT"), word("SIDE"), figure("VALUE")), stats)]
    if failures:
        rows = [
            (when(row["at"]), str(row["attempt"]), row["code"], row["message"]) for row in failures
        ]
        parts += [
            heading("Failed attempts"),
            table((word("TIME"), figure("ATTEMPT"), word("CODE"), Column("MESSAGE")), rows),
        ]
    return group(*parts)


def _state(status: str) -> RenderableType:
    """The specification's status in the colour of a task's status."""
    task_status = {"FINISHED": "completed", "INCOMPLETE": "failed", "MISSING": "failed"}
    text = status_text(task_status.get(status, status.lower()))
    text.plain = status
    return text


def _failure(one: RoundMatch) -> str:
    return one.error_code or (one.reason or "").partition(":")[0]


def _error(code: str | None, message: str | None) -> str | None:
    return f"{code or ''} {message or ''}".strip() or None


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
