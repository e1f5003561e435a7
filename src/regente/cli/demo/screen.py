"""The demo's progress: a bar per mission in a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from regente.cli.output import console, plain, status_text
from regente.pipelines.missions.read_models import Mission

LINE_EVERY_SECONDS = 3.0
BAR_COLUMNS = 24
_BEGINS = {"atribuido": 0.0, "extracao": 0.1, "armazenamento": 0.7, "finalizado": 1.0}
_SPANS = {"extracao": 0.6, "armazenamento": 0.3}


class Screen:
    """Shows progress on stdout, or on stderr when stdout is for JSON."""

    def __init__(self, *, stderr: bool) -> None:
        self._console: Console = console(stderr=stderr)
        self._live = Live(console=self._console, refresh_per_second=6, transient=True)
        self._began_at = time.monotonic()
        self._printed_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bars; `say` still works."""
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(plain(text))

    def update(self, missions: Sequence[Mission]) -> None:
        if self._console.is_terminal:
            self._live.update(_bars(missions))
        elif time.monotonic() - self._printed_at >= LINE_EVERY_SECONDS:
            self._printed_at = time.monotonic()
            counts = Counter(mission.status for mission in missions)
            elapsed = time.monotonic() - self._began_at
            self.say(
                f"{elapsed:5.1f} s  "
                + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
            )


def share_of(mission: Mission) -> float:
    """How far a mission is, from 0 to 1."""
    if mission.finished_at is not None:
        return 1.0
    checkpoint = mission.checkpoint or "atribuido"
    return _BEGINS[checkpoint] + _SPANS.get(checkpoint, 0.0) * (mission.progress or 0.0)


def _bars(missions: Sequence[Mission]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for mission in missions:
        colour = "red" if mission.status == "failed" else "green"
        grid.add_row(
            Text(str(mission.id)),
            Text(f"{mission.date_start} {mission.media_type}"),
            ProgressBar(1.0, share_of(mission), width=BAR_COLUMNS, finished_style=colour),
            status_text(mission.status),
            Text(mission.checkpoint or "", style="dim"),
            Text(mission.worker_name or "", style="dim"),
            Text("" if mission.ads_count is None else f"{mission.ads_count:,} ads"),
            Text(f"retry {mission.retry_count}" if mission.retry_count else "", style="yellow"),
        )
    return grid
