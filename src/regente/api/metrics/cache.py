"""Queries the database's metrics at most every few seconds.

Counts failed attempts and lost runners since this process started.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from prometheus_client.core import Metric
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from regente.api.additions import Additions
from regente.engine.database import Database
from regente.engine.errors import DatabaseUnavailable
from regente.queries import Queries, Row

logger = logging.getLogger("regente.api")

QUERIES = Queries(Path(__file__).with_name("metrics.sql"), prepare=False)
CAP = 100_000
RECENT_EVENTS = 5000
SETTLE_SECONDS = 10.0
MAX_CODES = 300
OTHER = "other"


@dataclass(slots=True)
class MetricsSnapshot:
    queues: list[Row] = field(default_factory=list)
    running: list[Row] = field(default_factory=list)
    durations: list[Row] = field(default_factory=list)
    runners: list[Row] = field(default_factory=list)
    lanes: Row = field(default_factory=dict)
    lane_waits: list[Row] = field(default_factory=list)
    schedules: Row = field(default_factory=dict)
    state: Row = field(default_factory=dict)
    added: list[Metric] = field(default_factory=list)
    """The metrics of built-ins."""
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    lost_runners: int = 0
    up: bool = False
    seconds: float = 0.0
    """How long the queries took."""


class MetricsCache:
    def __init__(
        self,
        database: Database,
        keep_seconds: float = 5.0,
        additions: Sequence[Additions] = (),
    ) -> None:
        self._database = database
        self._additions = additions
        self._keep_seconds = keep_seconds
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")
        self._began_at: datetime | None = None
        self._last_failure_id = 0
        self._failures: Counter[tuple[str, str, str]] = Counter()
        self._lost: set[int] = set()
        self.latest = MetricsSnapshot()

    async def refresh(self) -> None:
        """Update `latest`, or mark the database as unavailable."""
        async with self._refreshing:
            if time.monotonic() - self._refreshed_at < self._keep_seconds:
                return
            try:
                self.latest = await self._query()
            except (psycopg.Error, PoolTimeout, DatabaseUnavailable) as error:
                logger.warning(
                    "no metrics: the database is unavailable",
                    extra={"error": type(error).__name__},
                )
                self.latest = MetricsSnapshot(failures=self._failures, lost_runners=len(self._lost))
            self._refreshed_at = time.monotonic()

    async def _query(self) -> MetricsSnapshot:
        """Query all metrics in one transaction, so that they are consistent."""
        started_at = time.monotonic()
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "metrics_limits")
            await self._count(connection)
            rows = partial(QUERIES.fetch_all, connection)
            return MetricsSnapshot(
                queues=await self._queues(connection),
                running=await self._running(connection),
                durations=await rows("metrics_durations", events=RECENT_EVENTS),
                runners=await rows("metrics_runners"),
                lanes=(await rows("metrics_lanes", cap=CAP))[0],
                lane_waits=await rows("metrics_lane_waits"),
                schedules=(await rows("metrics_schedules", cap=CAP))[0],
                state=(await rows("metrics_state"))[0],
                added=[
                    metric for one in self._additions for metric in await one.metrics(connection)
                ],
                failures=self._failures,
                lost_runners=len(self._lost),
                up=True,
                seconds=time.monotonic() - started_at,
            )

    async def _queues(self, connection: AsyncConnection[Any]) -> list[Row]:
        rows = await QUERIES.fetch_all(connection, "metrics_queues", cap=CAP)
        for one in self._additions:
            oldest = await one.oldest_waiting(connection)
            rows = [
                {**row, "oldest_seconds": oldest.get(row["pipeline"], row["oldest_seconds"])}
                for row in rows
            ]
        return rows

    async def _running(self, connection: AsyncConnection[Any]) -> list[Row]:
        others = [name for one in self._additions for name in one.checkpoints_of]
        rows = await QUERIES.fetch_all(connection, "metrics_running", others=others)
        for one in self._additions:
            rows += await one.running(connection)
        return rows

    async def _count(self, connection: AsyncConnection[Any]) -> None:
        """Add the failures and lost runners since the last query."""
        rows = partial(QUERIES.fetch_all, connection)
        if self._began_at is None:
            (start,) = await rows("metrics_failures_start")
            self._began_at, self._last_failure_id = start["now"], start["last_id"]
        self._lost |= {
            row["id"] for row in await rows("metrics_lost_runners", since=self._began_at)
        }
        for row in await rows(
            "metrics_failures", after_id=self._last_failure_id, settle_seconds=SETTLE_SECONDS
        ):
            kind = (row["pipeline"], row["class"], row["code"])
            if kind not in self._failures and len(self._failures) >= MAX_CODES:
                kind = (OTHER, row["class"], OTHER)
            self._failures[kind] += row["failures"]
            self._last_failure_id = max(self._last_failure_id, row["last_id"])
