"""The targets of the results."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results import Run

OURS = "regente"


@dataclass(frozen=True, slots=True)
class Target:
    """A target; `reached` gives the value to show and whether it suffices, or None unmeasured."""

    figure: str
    wanted: str
    reached: Callable[[Run], tuple[str, bool] | None]


def at_least(times: float, figure: str, peer: str) -> Callable[[Run], tuple[str, bool] | None]:
    def reached(run: Run) -> tuple[str, bool] | None:
        ratio = run.ratio(figure, peer)
        return None if ratio is None else (f"{ratio:.2f}x", ratio >= times)

    return reached


def at_most(limit: float, figure: str) -> Callable[[Run], tuple[str, bool] | None]:
    def reached(run: Run) -> tuple[str, bool] | None:
        value = run.median(figure, OURS)
        return None if value is None else (f"{value:.2f}", value <= limit)

    return reached


def between(
    low: float, high: float, figure: str, base: str
) -> Callable[[Run], tuple[str, bool] | None]:
    """One of our figures as a fraction of another one."""

    def reached(run: Run) -> tuple[str, bool] | None:
        value, reference = run.median(figure, OURS), run.median(base, OURS)
        if value is None or reference is None:
            return None
        return f"{value / reference:.2f}", low <= value / reference <= high

    return reached


ANY = float("inf")
TARGETS = (
    Target("drain1", "≥ 2.0x PgQueuer", at_least(2.0, "drain1", "pgqueuer")),
    Target("drain1", "ahead of Graphile Worker", at_least(1.0, "drain1", "graphile")),
    Target("drain2", "≥ 1.6x PgQueuer", at_least(1.6, "drain2", "pgqueuer")),
    Target("drain2", "ahead of Graphile Worker", at_least(1.0, "drain2", "graphile")),
    Target("enqueue", "≥ 1.5x PgQueuer", at_least(1.5, "enqueue", "pgqueuer")),
    Target("latency_p50", "no slower than PgQueuer", at_least(1.0, "latency_p50", "pgqueuer")),
    Target("latency_p50", "≤ 1.5 ms (aim)", at_most(1.5, "latency_p50")),
    Target("latency_p99", "no slower than PgQueuer", at_least(1.0, "latency_p99", "pgqueuer")),
    Target("steps", "≥ 6x Absurd", at_least(6.0, "steps", "absurd")),
    Target("idle_transactions", "≤ 1/s", at_most(1.0, "idle_transactions")),
    Target("idle_cpu", "< 0.5 %", at_most(0.5, "idle_cpu")),
    Target(
        "history_million",
        "≥ 0.9 of the empty history",
        between(0.9, ANY, "history_million", "history_none"),
    ),
    Target(
        "memory_late",
        "no growth (≤ 1.1 of the early figure)",
        between(0.0, 1.1, "memory_late", "memory_early"),
    ),
    Target("sleeping_leases", "≤ 0.2/s", at_most(0.2, "sleeping_leases")),
)
