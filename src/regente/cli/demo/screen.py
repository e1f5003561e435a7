"""What the demo shows while it runs: one bar in a terminal, a line every few seconds anywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from regente.cli.output import console, duration, plain
from regente.engine.models import BatchInfo

LINE_EVERY_SECONDS = 3.0
_STATES = (("completed", "green"), ("running", "cyan"), ("queued", "yellow"), ("failed", "red"), ("skipped", "dim"))


class Screen:
    """On stdout, or on stderr when stdout is for JSON."""

    def __init__(self, *, stderr: bool) -> None:
        self._console: Console = console(stderr=stderr)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("{task.fields[eta]}"),
            console=self._console, expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("Tasks", total=None, eta="", visible=False)
        self._counts = Text("")
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._began_at = time.monotonic()
        self._printed_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Takes the bar away; lines may still be said."""
        self._live.stop()

    def say(self, text: str) -> None:
        """Something worth a line of its own."""
        self._console.print(plain(text))

    def update(self, batch: BatchInfo) -> None:
        done = batch.completed + batch.failed + batch.skipped + batch.canceled
        left = f"about {duration(batch.eta_seconds)} left" if batch.eta_seconds else ""
        if self._console.is_terminal:
            self._draw(batch, done, left)
        elif time.monotonic() - self._printed_at >= LINE_EVERY_SECONDS:
            self._printed_at = time.monotonic()
            counts = ", ".join(f"{getattr(batch, state):,} {state}" for state, _ in _STATES)
            elapsed = time.monotonic() - self._began_at
            self.say(f"{elapsed:5.1f} s  {done:,} of {batch.total:,} done: {counts}{f'; {left}' if left else ''}")

    def _draw(self, batch: BatchInfo, done: int, left: str) -> None:
        self._bar.update(self._task, total=batch.total, completed=done, eta=left, visible=True)
        counts = Text(" · ").join(Text(f"{getattr(batch, state):,} {state}", style=style) for state, style in _STATES)
        grid = Table.grid()
        grid.add_row(self._bar)
        grid.add_row(counts)
        self._live.update(grid)
