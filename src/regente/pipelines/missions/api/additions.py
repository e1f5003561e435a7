"""What missions add to the API's overview, charts, event log, metrics and bulk actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client.core import Metric
from psycopg import AsyncConnection

from regente.api.additions import Additions, EventScope, HealthPart, problems
from regente.api.models.stats import Attention
from regente.pipelines.missions.api import bulk, metrics
from regente.pipelines.missions.queries import ADDITIONS as QUERIES
from regente.queries import Row, Source

_NOT_SHOWN = {"storing", "missions_wait"}


class MissionAdditions(Additions):
    actions = bulk.ACTIONS
    retries = {"missions": bulk.retry}  # noqa: RUF012 - never changed
    retry_events = ("retry_triggered", "mission_returned")
    checkpoints_of = ("missions",)

    async def health(self, source: Source) -> HealthPart:
        (row,) = await QUERIES.fetch_all(source, "health")
        row["workers"] = row["workers"] or {}
        return HealthPart(
            {name: value for name, value in row.items() if name not in _NOT_SHOWN},
            attention_of(row),
            work_waits=row["missions_wait"] or row["storing"],
        )

    async def oldest_waiting(self, source: Source) -> dict[str, float]:
        row = await QUERIES.fetch_one(source, "oldest_waiting")
        return {"missions": row["seconds"]} if row else {}

    async def phases(self, source: Source, window_seconds: int) -> list[Row]:
        return await QUERIES.fetch_all(source, "phases", window_seconds=window_seconds)

    async def sessions(self, source: Source, window_seconds: int, bucket_seconds: int) -> list[Row]:
        return await QUERIES.fetch_all(
            source, "sessions", window_seconds=window_seconds, bucket_seconds=bucket_seconds
        )

    async def running(self, source: Source) -> list[Row]:
        return await QUERIES.fetch_all(source, "running")

    async def checkpoints(self, source: Source, ids: Sequence[int]) -> dict[int, str]:
        rows = await QUERIES.fetch_all(source, "checkpoints", ids=list(ids))
        return {row["id"]: row["checkpoint"] for row in rows}

    async def event_scope(
        self, source: Source, mission_id: int | None, worker_id: str | None
    ) -> EventScope | None:
        if mission_id is not None:
            (row,) = await QUERIES.fetch_all(source, "scope_of_mission", mission_id=mission_id)
            return EventScope([mission_id, *row["drivers"]], row["sessions"])
        rows = await QUERIES.fetch_all(source, "tasks_of_worker", worker_id=worker_id)
        return EventScope([row["id"] for row in rows])

    async def metrics(self, connection: AsyncConnection[Any]) -> list[Metric]:
        missions = await QUERIES.fetch_all(connection, "missions_by_checkpoint", cap=metrics.CAP)
        (fleet,) = await QUERIES.fetch_all(connection, "fleet")
        return list(metrics.families(missions, fleet))


def attention_of(row: Row) -> list[Attention]:
    """The problems of the fleet."""
    busy = row["missions_wait"] or row["storing"]
    return problems(
        ("PROXIES_FAIL", row["breaker"], "most proxies fail: the target may be down"),
        ("WORKERS_FAIL", row["workers"].get("error", 0), "workers fail to start a session"),
        ("PROXIES_OUT", row["inactive_proxies"], "proxies are inactive"),
        (
            "NO_PROXY",
            busy and not row["active_proxies"],
            "no proxy is active, and missions wait",
        ),
        (
            "NO_WORKER",
            row["missions_wait"] and not row["workers"],
            "no worker is active, and missions wait",
        ),
        (
            "NO_WRITER",
            row["storing"] and not row["active_writers"],
            "no writer is active, and ads wait to be stored",
        ),
        (
            "WRITERS_FAIL",
            row["storing"] and row["failing_writers"] >= max(1, row["active_writers"]),
            "all active writers fail, and ads wait to be stored",
        ),
    )


ADDITIONS = MissionAdditions()
