"""The samples of a run, their names and their summaries."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a measurement yields."""

    name: str
    title: str
    unit: str
    decimals: int = 0
    lower_is_better: bool = False

    def show(self, value: float) -> str:
        return f"{value:,.{self.decimals}f}"


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("drain1", "Drain, 1 process", "tasks/s"),
        Figure("drain2", "Drain, 2 processes", "tasks/s"),
        Figure("enqueue", "Bulk enqueue", "tasks/s"),
        Figure("latency_p50", "Latency enqueue → handler, p50", "ms", 2, lower_is_better=True),
        Figure("latency_p99", "Latency enqueue → handler, p99", "ms", 2, lower_is_better=True),
        Figure("steps", "Durable steps, 5 per task", "steps/s"),
        Figure("idle_transactions", "Idle runner, transactions", "1/s", 2, lower_is_better=True),
        Figure("idle_cpu", "Idle runner, processor", "%", 2, lower_is_better=True),
        Figure("history_none", "Drain with an empty history", "tasks/s"),
        Figure("history_million", "Drain beside a long history", "tasks/s"),
        Figure(
            "memory_early",
            "Runner memory after a tenth of a million tasks",
            "MiB",
            1,
            lower_is_better=True,
        ),
        Figure(
            "memory_late", "Runner memory after a million tasks", "MiB", 1, lower_is_better=True
        ),
        Figure(
            "sleeping_leases",
            "5,000 sleeping tasks, rows written to keep them",
            "1/s",
            2,
            lower_is_better=True,
        ),
        Figure(
            "sleeping_transactions",
            "5,000 sleeping tasks, all transactions",
            "1/s",
            2,
            lower_is_better=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Sample:
    figure: str
    peer: str
    round: int
    value: float
    load: float


@dataclass(frozen=True, slots=True)
class Summary:
    median: float
    low: float
    high: float


@dataclass(slots=True)
class Run:
    """One run of the benchmark with everything needed to read it later."""

    machine: dict[str, Any]
    options: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def peers_of(self, figure: str) -> list[str]:
        """Peers in order, best first."""
        names = {sample.peer for sample in self.samples if sample.figure == figure}
        worst_last = FIGURES[figure].lower_is_better
        return sorted(
            names, key=lambda name: self.median(figure, name) or 0.0, reverse=not worst_last
        )

    def summary(self, figure: str, peer: str) -> Summary | None:
        values = [
            sample.value
            for sample in self.samples
            if (sample.figure, sample.peer) == (figure, peer)
        ]
        return Summary(median(values), min(values), max(values)) if values else None

    def median(self, figure: str, peer: str) -> float | None:
        summary = self.summary(figure, peer)
        return summary.median if summary else None

    def ratio(self, figure: str, peer: str, *, ours: str = "regente") -> float | None:
        """Ratio of our value to that peer's; above 1 is better."""
        mine, theirs = self.median(figure, ours), self.median(figure, peer)
        if not mine or not theirs:
            return None
        return theirs / mine if FIGURES[figure].lower_is_better else mine / theirs

    def figures(self) -> Iterable[Figure]:
        """Figures with samples, in their fixed order."""
        measured = {sample.figure for sample in self.samples}
        return (figure for name, figure in FIGURES.items() if name in measured)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
