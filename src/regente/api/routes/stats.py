"""`/api/stats`: statistics of the overview."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Viewer
from regente.api.additions import HealthPart, problems
from regente.api.models.stats import Attention, Bucket, ErrorGroup, Health, Phase, Queue, Stats
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.queries import Row

routes = resource("/api/stats", "stats")

BUCKETS = 60
NO_FLEET = {
    "workers": {},
    "inactive_workers": 0,
    "active_proxies": 0,
    "proxies_in_use": 0,
    "failing_proxies": 0,
    "inactive_proxies": 0,
    "active_writers": 0,
    "failing_writers": 0,
    "breaker": False,
}


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
    throughput, queues, phases, errors, (core,), parts = await asyncio.gather(
        QUERIES.fetch_all(
            api.database,
            "stats_throughput",
            window_seconds=window_seconds,
            bucket_seconds=bucket,
            pipeline=pipeline,
        ),
        _queues(api, pipeline),
        _phases(api, window_seconds),
        QUERIES.fetch_all(api.database, "stats_errors", pipeline=pipeline),
        QUERIES.fetch_all(api.database, "stats_health"),
        _parts(api),
    )
    return Stats(
        now=core["now"],
        window_seconds=window_seconds,
        bucket_seconds=bucket,
        throughput=[Bucket(**row) for row in throughput],
        queues=[Queue(**row) for row in queues],
        phases=[Phase(**row) for row in phases],
        errors=[ErrorGroup(**row) for row in errors],
        health=_health(core, parts),
        attention=attention_of(core, queues, parts),
        stalled_batches=core["stalled_batches"],
        dead_letters=core["dead_letters"],
    )


async def _parts(api: Api) -> list[HealthPart]:
    return await asyncio.gather(*(one.health(api.database) for one in api.additions))


async def _queues(api: Api, pipeline: str | None) -> list[Row]:
    rows = await QUERIES.fetch_all(api.database, "stats_queues", pipeline=pipeline)
    held = await asyncio.gather(*(one.oldest_waiting(api.database) for one in api.additions))
    oldest = {name: seconds for one in held for name, seconds in one.items()}
    for row in rows:
        row["oldest_waiting_seconds"] = oldest.get(row["pipeline"], row["oldest_waiting_seconds"])
    return rows


async def _phases(api: Api, window_seconds: int) -> list[Row]:
    found = await asyncio.gather(
        *(one.phases(api.database, window_seconds) for one in api.additions)
    )
    return [row for rows in found for row in rows]


def _health(core: Row, parts: Sequence[HealthPart]) -> Health:
    added = {name: value for part in parts for name, value in part.fields.items()}
    own = {"runners": core["runners"], "lost_runners": core["lost_runners"]}
    return Health(**{**NO_FLEET, **added, **own})


def attention_of(core: Row, queues: list[Row], parts: Sequence[HealthPart]) -> list[Attention]:
    """The problems that an operator should look at."""
    waits = sum(row["due"] for row in queues) or any(part.work_waits for part in parts)
    return [
        *problems(
            ("DEAD_LETTERS", core["dead_letters"], "tasks failed for good"),
            ("STALLED_BATCHES", core["stalled_batches"], "batches stopped moving"),
            ("STUCK_TASKS", sum(row["stuck"] for row in queues), "tasks run without a heartbeat"),
        ),
        *(one for part in parts for one in part.attention),
        *problems(
            ("NO_RUNNER", waits and not core["runners"], "no runner is alive, and tasks wait"),
            ("RUNNERS_LOST", core["lost_runners"], "runners died in the last hour"),
        ),
    ]
