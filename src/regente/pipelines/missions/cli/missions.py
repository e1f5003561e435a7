"""`regente missions …`: create, queue, list, show, cancel and retry missions."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import MAX_ID, LimitOption, YesOption, confirm, unique
from regente.cli.output import (
    Column,
    duration,
    facts,
    figure,
    group,
    heading,
    plural,
    pretty_json,
    status_text,
    table,
    when,
    word,
)
from regente.engine.errors import InvalidInput
from regente.pipelines.missions.args import MEDIA_TYPES, missions_of
from regente.pipelines.missions.operations import mission_filter
from regente.pipelines.missions.read_models import Mission
from regente.redaction import redacted

if TYPE_CHECKING:
    from rich.console import RenderableType

missions = typer.Typer(
    name="missions",
    help="Create, queue, list, cancel and retry missions.",
    no_args_is_help=True,
)
_COLUMNS = (
    figure("ID"),
    word("STATUS"),
    word("CHECKPOINT"),
    word("DAYS"),
    word("MEDIA"),
    Column("LANGUAGES"),
    Column("WORKER"),
    Column("PROXY"),
    figure("ADS"),
    figure("RETRIES"),
    Column("ERROR"),
)

MissionId = Annotated[
    int,
    typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The mission's id.", show_default=False),
]
MissionIds = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[ID]...", min=1, max=MAX_ID, help="Ids of missions.", show_default=False
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="All missions that the command applies to.")]


@command(
    missions,
    "create",
    audited="missions.create",
    example="regente missions create 2025-01-01 2025-01-31 --media video,image --languages pt "
    "--queue",
)
async def create(
    context: CommandContext,
    start: Annotated[
        str, typer.Argument(metavar="START", help="First day, YYYY-MM-DD.", show_default=False)
    ],
    end: Annotated[
        str | None,
        typer.Argument(metavar="[END]", help="Last day. [default: the first]", show_default=False),
    ] = None,
    media: Annotated[
        str,
        typer.Option(metavar="A,B", help=f"Some of {', '.join(MEDIA_TYPES)}; one mission each."),
    ] = "all",
    languages: Annotated[
        str, typer.Option(metavar="A,B", help="Language codes; 'pt+en' is one mission for both.")
    ] = "pt",
    days: Annotated[int, typer.Option(min=1, max=366, help="Days of one mission.")] = 1,
    queue: Annotated[
        bool,
        typer.Option("--queue", help="Queue the missions; else they are drafts."),
    ] = False,
) -> None:
    """Create missions: one for each day (or --days days) × media type × language."""
    first = _day(start)
    groups = [group.split("+") for group in _words(languages, "--languages")]
    made = missions_of(
        first, _day(end) if end else first, _words(media, "--media"), groups, days_each=days
    )
    async with context.app("missions") as app:
        ids = await app.missions.create(made, queue=queue, by=BY)
    status = (
        "queued" if queue else "created as drafts; queue them with: regente missions queue --all"
    )
    context.answer({"ids": ids}, lambda: f"{plural(len(ids), 'mission')} {status}.")


@command(missions, "list", example="regente missions list --status failed")
async def list_missions(
    context: CommandContext,
    status: Annotated[
        list[str] | None, typer.Option(help="Only these statuses. May be repeated.")
    ] = None,
    before: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, help="Only ids below this: the next page.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List missions, newest first."""
    async with context.app("missions") as app:
        found = await app.missions.find(mission_filter(status), before_id=before, limit=limit)
        counts = await app.missions.counts()
    total = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    nothing = (
        "No missions match."
        if total
        else "No missions yet. Create some with: regente missions create 2025-01-15 --queue"
    )
    context.answer(
        {"missions": [_document(mission) for mission in found], "counts": counts},
        lambda: group(table(_COLUMNS, map(_row, found)), total) if found else nothing,
    )


@command(missions, "show", example="regente missions show 7")
async def show(context: CommandContext, mission_id: MissionId) -> None:
    """Show a mission: its state, its log, the rows that could not be stored."""
    async with context.app("missions") as app:
        mission = await app.missions.get(mission_id)
        log = await app.missions.timeline(mission_id)
        items = await app.missions.failed_items(mission_id, limit=20)
        why = await app.missions.why(mission_id)
    document = {
        **_document(mission),
        "why": {"code": why.code, "summary": why.summary},
        "log": redacted(log),
        "failed_items": items,
    }
    context.answer(document, lambda: _shown(mission, why.summary, log, items))


@command(missions, "queue", audited="missions.queue", example="regente missions queue 7 8 9")
async def queue_missions(
    context: CommandContext, ids: MissionIds = None, everything: AllOption = False
) -> None:
    """Queue draft missions. Opens the orchestrator, unless an operator stopped it."""
    async with context.app("missions") as app:
        queued = await app.missions.queue(await _chosen(app, ids, everything, "draft"), by=BY)
    nothing = "None of them is a draft: nothing changed."
    context.answer(
        {"queued": queued},
        lambda: f"{plural(len(queued), 'mission')} queued." if queued else nothing,
    )


@command(missions, "cancel", audited="missions.cancel", example="regente missions cancel 7")
async def cancel(
    context: CommandContext,
    ids: MissionIds = None,
    everything: AllOption = False,
    yes: YesOption = False,
) -> None:
    """Cancel missions. A worker that is running one is told to stop, and confirms."""
    async with context.app("missions") as app:
        chosen = await _chosen(app, ids, everything, "queued", "running", "draft")
        if everything:
            confirm(f"Cancel {plural(len(chosen), 'mission')}?", yes=yes, as_json=context.json)
        counts = await app.missions.cancel_many(chosen, by=BY)
        if len(chosen) == 1 and not any(counts.values()):
            await app.missions.cancel(chosen[0], by=BY)  # says why, unless it was canceled before
    text = (
        f"{plural(counts['canceled'], 'mission')} canceled, {counts['canceling']:,} asked to stop."
    )
    context.answer(counts, lambda: text)


@command(missions, "retry", audited="missions.retry", example="regente missions retry --all")
async def retry(
    context: CommandContext, ids: MissionIds = None, everything: AllOption = False
) -> None:
    """Requeue failed or canceled missions with all their retries. --all: only the failed ones."""
    async with context.app("missions") as app:
        chosen = await _chosen(app, ids, everything, "failed")
        if len(chosen) == 1:
            await app.missions.retry(chosen[0], by=BY)
            done = chosen
        else:
            done = await app.missions.retry_many(chosen, by=BY)
    nothing = "None of them has failed or was canceled: nothing changed."
    context.answer(
        {"requeued": done},
        lambda: f"{plural(len(done), 'mission')} back in the queue." if done else nothing,
    )


@command(missions, "why", example="regente missions why 7")
async def why(context: CommandContext, mission_id: MissionId) -> None:
    """Explain why a mission is not running, or its state."""
    async with context.app("missions") as app:
        answer = await app.missions.why(mission_id)
    context.answer(
        {"code": answer.code, "summary": answer.summary, "details": answer.details},
        lambda: answer.summary,
    )


async def _chosen(
    app: Regente, ids: list[int] | None, everything: bool, *statuses: str
) -> list[int]:
    if bool(ids) == everything:
        raise InvalidInput("choose missions by ids or --all")
    return unique(ids) if ids else await app.missions.ids(mission_filter(statuses))


def _document(mission: Mission) -> dict[str, Any]:
    return {**mission.model_dump(), "result": mission.result}


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a date: write it like 2025-01-31") from None


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InvalidInput(f"{option} is empty")
    return list(dict.fromkeys(words))


def _row(mission: Mission) -> tuple[RenderableType, ...]:
    days = (
        str(mission.date_start)
        if mission.date_start == mission.date_end
        else f"{mission.date_start} – {mission.date_end}"
    )
    return (
        str(mission.id),
        status_text(mission.status),
        mission.checkpoint or "",
        days,
        mission.media_type,
        ", ".join(mission.languages),
        mission.worker_name or "",
        mission.proxy_used or "",
        "" if mission.ads_count is None else f"{mission.ads_count:,}",
        str(mission.retry_count or ""),
        mission.error_code or "",
    )


def _shown(
    mission: Mission, why: str, log: list[dict[str, Any]], items: list[dict[str, Any]]
) -> RenderableType:
    about: list[tuple[str, RenderableType | None]] = [
        ("Mission", str(mission.id)),
        ("Status", status_text("canceling" if mission.canceling else mission.status)),
        ("Why", why),
        ("Checkpoint", mission.checkpoint),
        ("Days", f"{mission.date_start} – {mission.date_end}"),
        ("Media", mission.media_type),
        ("Languages", ", ".join(mission.languages)),
        ("Worker", mission.worker_name),
        ("Proxy", mission.proxy_used),
        ("Scrape job", mission.worker_job_id),
        ("Data", mission.worker_data_url),
        ("Writer job", mission.writer_job_id),
        ("Ads", None if mission.ads_count is None else f"{mission.ads_count:,}"),
        ("Retries", str(mission.retry_count)),
        ("Error", _error(mission)),
        ("Queued", when(mission.queued_at)),
        ("Finished", when(mission.finished_at)),
        ("Took", _took(mission)),
        ("Result", pretty_json(mission.result) if mission.result else None),
    ]
    parts: list[RenderableType] = [facts(about)]
    if log:
        rows = [(when(row["timestamp"]), row["event"], _brief(row["details"])) for row in log]
        parts += [heading("Log"), table((word("TIME"), word("EVENT"), Column("DETAILS")), rows)]
    if items:
        rows = [(str(item["index"]), item["error"], _brief(item["data"])) for item in items]
        parts += [
            heading("Rows that could not be stored"),
            table((figure("INDEX"), Column("ERROR"), Column("DATA")), rows),
        ]
    return group(*parts)


def _error(mission: Mission) -> str | None:
    if not mission.error_code and not mission.error_message:
        return None
    return f"{mission.error_code or ''} {mission.error_message or ''}".strip()


def _took(mission: Mission) -> str | None:
    if mission.queued_at is None or mission.finished_at is None:
        return None
    return duration((mission.finished_at - mission.queued_at).total_seconds())


def _brief(details: dict[str, Any] | None) -> str:
    hidden = ("mission_config", "session_id")
    shown = (
        (name, value)
        for name, value in (details or {}).items()
        if name not in hidden and value is not None
    )
    return ", ".join(f"{name} {value}" for name, value in shown)[:200]
