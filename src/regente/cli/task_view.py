"""One task with its steps, events and failures: as a JSON document and as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.app import Regente
from regente.cli.output import (
    Column,
    duration,
    facts,
    figure,
    heading,
    number,
    plural,
    pretty_json,
    shortened,
    show,
    status_text,
    table,
    to_json,
    when,
    word,
)
from regente.engine.errors import NotFound
from regente.engine.models import Event, TaskInfo, as_dict
from regente.redaction import redacted

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SHOWN_ROWS = 100

SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="NAME",
        help="Write only this snapshot of its failures to stdout.",
    ),
]

_STEPS = (Column("STEP"), figure("ATTEMPT"), figure("TOOK"), Column("OUTPUT"))
_EVENTS = (word("TIME"), Column("EVENT"), figure("ATTEMPT"), Column("DETAILS"))
_FAILURES = (
    word("TIME"),
    figure("ATTEMPT"),
    Column("CLASS"),
    Column("CODE"),
    Column("STEP"),
    Column("MESSAGE"),
)


async def task_document(app: Regente, task_id: int) -> dict[str, Any]:
    task = await app.get(task_id)
    events = await app.task_events(task_id)
    document: dict[str, Any] = redacted(
        {
            **as_dict(task),
            "why": str(await app.why(task_id)),
            "attempts": [as_dict(one) for one in await app.attempts(task_id)],
            "steps": await app.steps(task_id),
            "events": [as_dict(event) for event in events],
            "failures": await app.failures(task_id),
        }
    )
    return document


def show_task(document: dict[str, Any]) -> None:
    show(facts(_facts(document)))
    show(heading("Arguments"), pretty_json(document["args"]))
    if document["result"] is not None:
        show(heading("Result"), pretty_json(document["result"]))
    if document["steps"]:
        show(heading("Steps"), _limited(_STEPS, document["steps"], _step_row))
    show(heading("Timeline"), _limited(_EVENTS, document["events"], _event_row))
    show_failures(document["id"], document["failures"])


def show_failures(task_id: int, failures: list[dict[str, Any]]) -> None:
    if not failures:
        return
    show(heading("Failures, newest first"), _limited(_FAILURES, failures, _failure_row))
    last = failures[0]
    if last["details"]:
        show(heading("Details of the last failure"), pretty_json(last["details"]))
    if last["stack"]:
        show(heading("Stack of the last failure"), shortened(last["stack"].rstrip()))
    snapshots = [(failure, one) for failure in failures for one in failure["snapshots"]]
    if snapshots:
        lines = (
            f"{one['name']} ({one['content_type']}, {plural(one['bytes'], 'byte')}), "
            f"attempt {failure['attempt']}"
            for failure, one in snapshots
        )
        show(
            heading("Snapshots"),
            "\n".join(lines),
            f"See one with: regente tasks show {task_id} --snapshot NAME",
        )


async def write_snapshot(app: Regente, document: dict[str, Any], name: str) -> None:
    """Write the newest snapshot with that name to stdout, unchanged."""
    for failure in document["failures"]:
        if any(one["name"] == name for one in failure["snapshots"]):
            _, _, body = await app.snapshot(failure["id"], name)
            sys.stdout.buffer.write(body)
            sys.stdout.flush()
            return
    names = dict.fromkeys(
        one["name"] for failure in document["failures"] for one in failure["snapshots"]
    )
    raise NotFound(f"there is no snapshot {name!r}; known: {', '.join(names) or 'none'}")


def _facts(task: dict[str, Any]) -> list[tuple[str, RenderableType | None]]:
    info = TaskInfo(**{name: task[name] for name in TaskInfo.model_fields})
    error = (
        f"{info.error_code}: {info.error_message}"
        if info.error_code and info.status != "completed"
        else None
    )
    progress = None if info.progress is None else f"{info.progress:.0%}"
    return [
        ("Task", str(info.id)),
        ("Pipeline", info.pipeline),
        ("Status", status_text(info.status)),
        ("Why", task["why"] if info.status in ("draft", "queued", "running") else None),
        ("Error", error),
        ("Key", info.key),
        ("Batch", str(info.batch_id) if info.batch_id else None),
        ("Priority", str(info.priority) if info.priority else None),
        ("Attempts", f"{info.attempt} started, {info.tries} failed, {info.crashes} crashed"),
        ("Version", _versions(task["attempts"])),
        (
            "Checkpoint",
            " ".join(filter(None, [info.checkpoint, progress])),
        ),
        (
            "Runner",
            f"{info.runner} (lease until {when(info.lease_until)})" if info.runner else None,
        ),
        ("Created", when(info.created_at)),
        ("Due", when(info.run_at) if info.status in ("draft", "queued") else None),
        ("Started", when(info.started_at)),
        ("Heartbeat", when(info.heartbeat_at) if info.status == "running" else None),
        ("Finished", when(info.finished_at)),
    ]


def _versions(attempts: list[dict[str, Any]]) -> str | None:
    """Of the code that ran it last, and that began it if it was another."""
    known = [one["version"] for one in attempts if one["version"]]
    if not known:
        return None
    return known[0] if known[0] == known[-1] else f"{known[0]} (begun by {known[-1]})"


def _limited(columns: tuple[Column, ...], rows: list[Any], row: Any) -> RenderableType:
    shown = table(columns, (row(one) for one in rows[:MAX_SHOWN_ROWS]))
    if len(rows) > MAX_SHOWN_ROWS:
        shown.caption = f"… {len(rows) - MAX_SHOWN_ROWS:,} more; --json shows up to 1,000"
    return shown


def _step_row(step: dict[str, Any]) -> tuple[RenderableType, ...]:
    name = step["name"] if step["item"] < 0 else f"{step['name']}[{step['item']}]"
    took = duration(step["duration_ms"] / 1000) if step["duration_ms"] is not None else ""
    return name, number(step["attempt"]), took, shortened_line(step["output"])


def _event_row(event: dict[str, Any]) -> tuple[RenderableType, ...]:
    return event_cells(Event(**{name: event[name] for name in Event.model_fields}))


def event_cells(event: Event) -> tuple[RenderableType, ...]:
    return when(event.at), event.event, str(event.attempt or ""), shortened_line(event.details)


def _failure_row(failure: dict[str, Any]) -> tuple[RenderableType, ...]:
    return (
        when(failure["at"]),
        number(failure["attempt"]),
        failure["class"],
        failure["code"],
        failure["step"] or "",
        shortened(failure["message"], 500),
    )


def shortened_line(value: Any, limit: int = 200) -> str:
    if value is None:
        return ""
    value = redacted(value)
    text = (
        ", ".join(f"{name}={_word(one)}" for name, one in value.items())
        if isinstance(value, dict)
        else to_json(value)
    )
    return text if len(text) <= limit else f"{text[:limit]}…"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)
