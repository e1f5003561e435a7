"""Writes a run: results as JSON, a table as Markdown, a chart as SVG."""

import json
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.catalogue import PEERS
from benchmarks.plot import draw
from benchmarks.results import Figure, Run
from benchmarks.targets import OURS, TARGETS

RESULTS = Path(__file__).resolve().parent / "results"
LABELS = {peer.name: peer.label for peer in PEERS}

METHOD = """\
One machine, one run. Every contestant works on the same PostgreSQL server with default settings
(Celery on Redis with default settings), through a unix socket, in a fresh database, in its own
environment. Rounds alternate contestant by contestant; the table shows medians. A drain starts with
the first claim and ends when the last completion is visible as committed; afterwards the database
is asked whether every task is recorded as done exactly once. Latency is measured from the enqueue
call in one process to the first line of the handler in another, on the shared monotonic clock.
Where a contestant only polls, it polls every 10 ms, far more often than by default. """


def write(run: Run) -> list[Path]:
    RESULTS.mkdir(exist_ok=True)
    today = datetime.now(UTC).date().isoformat()
    written = {
        RESULTS / f"{today}.json": json.dumps(run.as_json(), indent=1, ensure_ascii=False) + "\n",
        RESULTS / "latest.md": markdown(run),
        RESULTS / "latest.svg": draw(run, LABELS),
    }
    for path, text in written.items():
        path.write_text(text)
    return list(written)


def markdown(run: Run) -> str:
    parts = [
        "# Benchmark",
        METHOD,
        table(run),
        "![The main figures](latest.svg)",
        _machine(run),
        _contestants(run),
    ]
    if run.skipped:
        parts.append(
            "## Left out\n\n"
            + "\n".join(f"- **{what}**: {why}" for what, why in run.skipped.items())
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def table(run: Run) -> str:
    lines = [
        "| measurement | contestant | median | min … max | Regente is | target |",
        "|---|---|--:|--:|--:|---|",
    ]
    for figure in run.figures():
        for position, peer in enumerate(run.peers_of(figure.name)):
            lines.append(_row(run, figure, peer, first=position == 0))
    return "\n".join(lines)


def _row(run: Run, figure: Figure, peer: str, *, first: bool) -> str:
    summary = run.summary(figure.name, peer)
    assert summary is not None
    ratio = run.ratio(figure.name, peer)
    cells = (
        f"{figure.title} ({figure.unit})" if first else "",
        f"**{LABELS[peer]}**" if peer == OURS else LABELS[peer],
        figure.show(summary.median),
        f"{figure.show(summary.low)} … {figure.show(summary.high)}",
        "" if peer == OURS or ratio is None else f"{ratio:.2f}x",
        verdicts(run, figure.name) if peer == OURS else "",
    )
    return "| " + " | ".join(cells) + " |"


def verdicts(run: Run, figure: str) -> str:
    """The targets of a figure with the reached values."""
    shown = []
    for target in TARGETS:
        if target.figure == figure and (outcome := target.reached(run)):
            value, suffices = outcome
            shown.append(f"{'✓' if suffices else '✗'} {target.wanted}: {value}")
    return "<br>".join(shown)


def _machine(run: Run) -> str:
    rows = "\n".join(f"- {name}: {value}" for name, value in (run.machine | run.options).items())
    return f"## Machine\n\n{rows}"


def _contestants(run: Run) -> str:
    lines = ["## Contestants", "", "| contestant | version | settings |", "|---|---|---|"]
    lines += [
        f"| {LABELS[name]} | {run.versions[name]} | {run.settings[name]} |" for name in run.versions
    ]
    return "\n".join(lines)
