"""The metrics of missions and of their fleet."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from regente.api.metrics.families import gauge
from regente.queries import Row

CAP = 10_000
STATES = ("closed", "open", "draining", "halting")
WORKER_STATUSES = ("idle", "initializing", "ready", "scraping", "error")


def families(missions: list[Row], fleet: Row) -> Iterator[Metric]:
    """From the rows of `missions_by_checkpoint` and `fleet`."""
    samples = [((row["status"], row["checkpoint"] or ""), row["missions"]) for row in missions]
    about = f"Missions by status and checkpoint; counted up to {CAP:,}."
    yield gauge("regente_missions", about, ("status", "checkpoint"), samples)
    yield _workers(fleet["workers"])
    yield from _proxies(fleet["proxies"])
    yield gauge(
        "regente_proxy_breaker_open",
        "1 if proxies fail so often that only probes are sent.",
        (),
        [((), float(fleet["breaker"]))],
    )
    states = [((state,), float(fleet["orchestrator"] == state)) for state in STATES]
    yield gauge("regente_orchestrator_state", "1 for the current state.", ("state",), states)


def _workers(rows: list[Row]) -> Metric:
    workers = {(status, "true"): 0 for status in WORKER_STATUSES}
    for row in rows:
        workers[row["status"], str(row["active"]).lower()] = row["workers"]
    return gauge("regente_workers", "Workers by status.", ("status", "active"), workers.items())


def _proxies(proxies: list[Row]) -> Iterator[Metric]:
    counted = {
        "active": sum(row["active"] for row in proxies),
        "inactive": sum(not row["active"] for row in proxies),
        "in_use": sum(row["in_use"] for row in proxies),
        "failing": sum(row["fail_count"] > 0 for row in proxies),
    }
    yield gauge(
        "regente_proxies",
        "Proxies by state.",
        ("state",),
        [((state,), count) for state, count in counted.items()],
    )
    fails = [((row["name"],), row["fail_count"]) for row in proxies]
    yield gauge(
        "regente_proxy_fail_count", "Consecutive failures of each proxy.", ("proxy",), fails
    )
