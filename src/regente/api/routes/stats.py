"""`/api/stats`: statistics of the overview."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Viewer
from regente.api.models.stats import Attention, Bucket, ErrorGroup, Health, Phase, Queue, Stats
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.queries import Row

routes = resource("/api/stats", "stats")

BUCKETS = 60


@routes.get("", summary="Statistics of the overview")
async def show(
    api: ApiDep,
    who: Viewer,
    window_seconds: Annotated[
        int, Query(ge=60, le=86_400, description="Length of the time window.")
    ] = 3600,
    pipeline: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> Stats:
    bucket = max(1, window_seconds // BUCKETS)
    throughput, queues, phases, errors, (health,) = await asyncio.gather(
        QUERIES.fetch_all(
            api.database,
            "stats_throughput",
            window_seconds=window_seconds,
            bucket_seconds=bucket,
            pipeline=pipeline,
        ),
        QUERIES.fetch_all(api.database, "stats_queues", pipeline=pipeline),
        QUERIES.fetch_all(api.database, "stats_phases", window_seconds=window_seconds),
        QUERIES.fetch_all(api.database, "stats_errors", pipeline=pipeline),
        QUERIES.fetch_all(api.database, "stats_health"),
    )
    health["workers"] = health["workers"] or {}
    return Stats(
        now=health["now"],
        window_seconds=window_seconds,
        bucket_seconds=bucket,
        throughput=[Bucket(**row) for row in throughput],
        queues=[Queue(**row) for row in queues],
        phases=[Phase(**row) for row in phases],
        errors=[ErrorGroup(**row) for row in errors],
        health=Health(**{name: health[name] for name in Health.model_fields}),
        attention=attention_of(health, queues),
        stalled_batches=health["stalled_batches"],
        dead_letters=health["dead_letters"],
    )


def attention_of(health: Row, queues: list[Row]) -> list[Attention]:
    """The problems that an operator should look at."""
    waiting = sum(row["due"] for row in queues)
    busy = health["missions_wait"] or health["storing"]
    failing = health["workers"].get("error", 0)
    found = (
        ("DEAD_LETTERS", health["dead_letters"], "tasks failed for good"),
        ("STALLED_BATCHES", health["stalled_batches"], "batches stopped moving"),
        ("STUCK_TASKS", sum(row["stuck"] for row in queues), "tasks run without a heartbeat"),
        ("PROXIES_FAIL", int(health["breaker"]), "most proxies fail: the target may be down"),
        ("WORKERS_FAIL", failing, "workers fail to start a session"),
        ("PROXIES_OUT", health["inactive_proxies"], "proxies are inactive"),
        (
            "NO_PROXY",
            int(busy and not health["active_proxies"]),
            "no proxy is active, and missions wait",
        ),
        (
            "NO_WORKER",
            int(health["missions_wait"] and not health["workers"]),
            "no worker is active, and missions wait",
        ),
        (
            "NO_WRITER",
            int(health["storing"] and not health["active_writers"]),
            "no writer is active, and ads wait to be stored",
        ),
        (
            "NO_RUNNER",
            int((waiting or busy) and not health["runners"]),
            "no runner is alive, and tasks wait",
        ),
        ("RUNNERS_LOST", health["lost_runners"], "runners died in the last hour"),
    )
    return [
        Attention(code=code, count=count, message=message)
        for code, count, message in found
        if count
    ]
