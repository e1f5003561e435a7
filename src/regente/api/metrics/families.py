"""Makes metric families of the database's rows: their names, labels and help texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regente.api.metrics.cache import CAP, MetricsCache, MetricsSnapshot
from regente.queries import Row

LANE_STATES = ("known", "parked", "broken", "slowed")
SCHEDULE_STATES = ("enabled", "paused", "disabled")
BATCH_STATUSES = ("pending", "running", "stalled")

Labels = tuple[str, ...]
Sample = tuple[Labels, float]


class DatabaseCollector(Collector):
    def __init__(self, cache: MetricsCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        found = self._cache.latest
        yield gauge(
            "regente_database_up", "Whether the database answers.", (), [((), float(found.up))]
        )
        yield gauge(
            "regente_scrape_seconds",
            "Duration of the queries of the last scrape.",
            (),
            [((), found.seconds)],
        )
        yield from _counters(found)
        if found.up:
            for family in FAMILIES:
                yield from family(found)
            yield from found.added

    def describe(self) -> Iterator[Metric]:
        """Return nothing: a description would need the database."""
        return iter(())


def _counters(found: MetricsSnapshot) -> Iterator[Metric]:
    by_class: Counter[Labels] = Counter()
    for (pipeline, kind, _), count in found.failures.items():
        by_class[pipeline, kind] += count
    yield counter(
        "regente_failures",
        "Failed attempts since this process started, by code.",
        ("pipeline", "class", "code"),
        [(labels, count) for labels, count in found.failures.items()],
    )
    yield counter(
        "regente_retries_by_class",
        "Failed attempts since this process started, by class.",
        ("pipeline", "class"),
        [(labels, count) for labels, count in by_class.items()],
    )
    yield counter(
        "regente_runners_lost",
        "Runners whose lease expired since this process started.",
        (),
        [((), found.lost_runners)],
    )


def _queues(found: MetricsSnapshot) -> Iterator[Metric]:
    rows = found.queues
    running = Counter[str]()
    for row in found.running:
        running[row["pipeline"]] += row["tasks"]
    depth = [
        ((row["pipeline"], status), float(row[status]))
        for row in rows
        for status in ("queued", "failed")
    ]
    depth += [((name, "running"), float(count)) for name, count in running.items()]
    yield gauge(
        "regente_tasks",
        f"Tasks by pipeline and status; counted up to {CAP:,}.",
        ("pipeline", "status"),
        depth,
    )
    waiting = [((row["pipeline"],), max(0.0, row["oldest_seconds"] or 0.0)) for row in rows]
    yield gauge(
        "regente_oldest_waiting_seconds",
        "Waiting time of the oldest task that is due.",
        ("pipeline",),
        waiting,
    )
    paused = [((row["pipeline"],), float(row["paused"])) for row in rows]
    yield gauge("regente_pipeline_paused", "1 if the pipeline is paused.", ("pipeline",), paused)


def _running(found: MetricsSnapshot) -> Iterator[Metric]:
    rows = found.running
    stuck = Counter({row["pipeline"]: 0 for row in found.queues})
    for row in rows:
        stuck[row["pipeline"]] += row["stuck"]
    help_text = "Running tasks without a heartbeat for longer than their pipeline allows."
    yield gauge(
        "regente_tasks_stuck",
        help_text,
        ("pipeline",),
        [((name,), count) for name, count in stuck.items()],
    )
    places = [((row["pipeline"], row["checkpoint"]), float(row["tasks"])) for row in rows]
    yield gauge(
        "regente_tasks_at_checkpoint",
        "Running tasks by checkpoint.",
        ("pipeline", "checkpoint"),
        places,
    )


def _durations(found: MetricsSnapshot) -> Iterator[Metric]:
    for name, key, what in (
        ("average", "average", "Average"),
        ("p95", "p95", "95th percentile of the"),
    ):
        help_text = f"{what} time from first start to completion, of the latest completed tasks."
        samples = [((row["pipeline"],), row[key]) for row in found.durations]
        yield gauge(f"regente_task_duration_{name}_seconds", help_text, ("pipeline",), samples)


_RUNNER_COUNTS = {
    "claimed": "Tasks that it claimed.",
    "completed": "Attempts that completed.",
    "failed": "Attempts that ended as dead letters.",
    "retried": "Attempts that are retried.",
    "recovered": "Tasks of lost runners that it returned to the queue.",
    "handed_back": "Unfinished tasks that it returned to the queue.",
    "busy_seconds": "Total duration of its attempts.",
}
_RUNNER_GAUGES: dict[str, tuple[str, Callable[[Row], float]]] = {
    "running": ("Tasks that it runs now.", lambda row: row["running"]),
    "stuck": ("Of these, those without a heartbeat.", lambda row: row["stuck"]),
    "concurrency": ("Tasks that it may run at once.", lambda row: row["concurrency"]),
    "up": ("1 if its lease is valid.", lambda row: row["alive"]),
    "heartbeat_age_seconds": (
        "Seconds since it last renewed its lease.",
        lambda row: row["heartbeat_age"],
    ),
    "average_seconds": (
        "Average duration of an attempt.",
        lambda row: row["busy_seconds"] / max(1, _ended(row)),
    ),
}


def _runners(found: MetricsSnapshot) -> Iterator[Metric]:
    labels = [(str(row["id"]), row["name"]) for row in found.runners]
    names = ("runner_id", "runner")
    for key, about in _RUNNER_COUNTS.items():
        yield counter(
            f"regente_runner_{key}",
            about,
            names,
            zip(labels, (row[key] for row in found.runners), strict=True),
        )
    for key, (about, value) in _RUNNER_GAUGES.items():
        yield gauge(
            f"regente_runner_{key}",
            about,
            names,
            zip(labels, map(value, found.runners), strict=True),
        )
    alive = sum(row["alive"] for row in found.runners)
    yield gauge("regente_runners_alive", "Runners with a valid lease.", (), [((), alive)])


def _ended(row: Row) -> int:
    return int(row["completed"] + row["failed"] + row["retried"])


def _batches(found: MetricsSnapshot) -> Iterator[Metric]:
    counts = found.state["batches"]
    batches = [((status,), counts.get(status, 0)) for status in BATCH_STATUSES]
    yield gauge("regente_batches", "Open batches by status.", ("status",), batches)


def _lanes(found: MetricsSnapshot) -> Iterator[Metric]:
    lanes = [((state,), float(found.lanes[state])) for state in LANE_STATES]
    help_text = (
        f"Lanes: all, parked, with an open breaker, below their rate; counted up to {CAP:,}."
    )
    yield gauge("regente_lanes", help_text, ("state",), lanes)
    yield gauge(
        "regente_lane_calls",
        f"Calls of tasks in lanes: running, and waiting for a place; counted up to {CAP:,}.",
        ("state",),
        [((state,), float(found.lanes[f"{state}_calls"])) for state in ("running", "waiting")],
    )
    yield gauge(
        "regente_lane_waiting_seconds",
        "How long the lane that is next has been ready.",
        ("pipeline",),
        [((row["pipeline"],), max(0.0, row["seconds"])) for row in found.lane_waits],
    )


def _schedules(found: MetricsSnapshot) -> Iterator[Metric]:
    schedules = [((state,), float(found.schedules[state])) for state in SCHEDULE_STATES]
    yield gauge("regente_schedules", "Cron schedules by state.", ("state",), schedules)
    yield gauge(
        "regente_schedule_runs_waiting",
        f"Runs of schedules that wait for the end of the previous one; counted up to {CAP:,}.",
        (),
        [((), float(found.schedules["waiting"]))],
    )
    yield gauge(
        "regente_schedule_late_seconds",
        "How long the oldest time of a schedule that no runner dealt with has been due.",
        (),
        [((), max(0.0, found.schedules["late_seconds"]))],
    )


def _liveness(found: MetricsSnapshot) -> Iterator[Metric]:
    lag = max(0.0, found.state["feed_lag_seconds"] or 0.0)
    yield gauge(
        "regente_feed_lag_seconds",
        "Age of the oldest event that the feed cannot show yet.",
        (),
        [((), lag)],
    )
    age = found.state["heartbeat_age"]
    samples: list[Sample] = [] if age is None else [((), age)]
    yield gauge(
        "regente_last_heartbeat_age_seconds",
        "Seconds since any runner last renewed its lease.",
        (),
        samples,
    )


FAMILIES = (
    _queues,
    _running,
    _durations,
    _runners,
    _batches,
    _lanes,
    _schedules,
    _liveness,
)


def gauge(name: str, about: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def counter(
    name: str, about: str, labels: Labels, samples: Iterable[tuple[Labels, float]]
) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
