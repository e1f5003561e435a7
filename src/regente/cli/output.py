"""Output: tables or JSON on stdout, errors on stderr.

Tables fit a terminal's width; in a pipe each row is one line of any length, without colour.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from regente.logs import ESCAPES

# rich is imported only where it draws: it takes a third of the start of services and of --json.
if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

PIPE_COLUMNS = 100_000
MAX_SHOWN_CHARACTERS = 4_000

_STATUS_STYLES = {
    "completed": "green",
    "ok": "green",
    "alive": "green",
    "failed": "red",
    "error": "red",
    "lost": "red",
    "wrong": "red",
    "stalled": "red",
    "running": "cyan",
    "queued": "yellow",
    "pending": "yellow",
    "draining": "yellow",
    "paused": "yellow",
    "parked": "yellow",
    "full": "yellow",
    "waiting": "yellow",
    "idle": "dim",
    "warning": "yellow",
    "draft": "magenta",
    "canceled": "dim",
    "skipped": "dim",
    "stopped": "dim",
    "info": "dim",
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    right: bool = False
    whole: bool = False  # never wrapped or cut: ids, states, times


def figure(name: str) -> Column:
    """A column of numbers or ids: right-aligned, never wrapped."""
    return Column(name, right=True, whole=True)


def word(name: str) -> Column:
    """A column of states or times: never wrapped."""
    return Column(name, whole=True)


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_COLUMNS
    return Console(
        file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False
    )


def show(*parts: RenderableType) -> None:
    """Print text or tables on stdout."""
    out = console()
    for part in parts:
        if out.is_terminal:
            out.print(plain(part) if isinstance(part, str) else part)
            continue
        with out.capture() as captured:
            out.print(plain(part) if isinstance(part, str) else part)
        # The padding of a line's last cell is removed.
        sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a note on stderr."""
    print(text.translate(ESCAPES), file=sys.stderr, flush=True)


def write_json(value: Any) -> None:
    print(to_json(value, indent=2), flush=True)


def write_json_line(value: Any) -> None:
    print(to_json(value), flush=True)


def write_error(code: str, message: str, *, as_json: bool) -> None:
    if not message:
        return
    if as_json:
        print(to_json({"error": {"code": code, "message": message}}), file=sys.stderr)
    else:
        print(f"error: {message.translate(ESCAPES)}", file=sys.stderr)


def to_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, default=_jsonable, ensure_ascii=False, indent=indent)


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


# Pieces of tables.


def table(columns: Sequence[Column], rows: Iterable[Sequence[RenderableType]]) -> Table:
    from rich.table import Table

    terminal = sys.stdout.isatty()
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=column.whole or not terminal,
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*(cell(value) for value in row))
    return grid


def facts(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """A grid of name and value, one pair a line, without empty values."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            grid.add_row(name, cell(value, lines=True))
    return grid


def cell(value: RenderableType, *, lines: bool = False) -> RenderableType:
    if not isinstance(value, str):
        return value
    return plain(value if lines else " ".join(value.split()))


def plain(text: str) -> Text:
    """Text without markup, with control characters escaped: scraped pages may contain both."""
    from rich.text import Text

    return Text(text.translate(ESCAPES), overflow="fold")


def styled(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style)


def group(*parts: RenderableType) -> Group:
    """The parts, one below the other."""
    from rich.console import Group

    return Group(*parts)


def heading(text: str) -> Text:
    return styled(f"\n{text}", "bold underline" if sys.stdout.isatty() else "")


def status_text(status: str) -> Text:
    return styled(status, _STATUS_STYLES.get(status, ""))


def when(moment: datetime | None) -> str:
    """Local time, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 120
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


def number(value: int) -> str:
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def pretty_json(value: Any) -> str:
    return shortened(to_json(value, indent=2))


def shortened(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit:,} more characters; --json shows all"


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """A progress bar on stderr, if that is a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console(stderr=True), disable=not sys.stderr.isatty(), transient=True
    ) as bar:
        bar.add_task(what, total=total)
        yield bar


def ignore_closed_pipe() -> None:
    """Treat a closed stdout (`regente … | head`) as no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
