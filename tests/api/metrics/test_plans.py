"""Neither metrics nor the stream scan a large table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from regente.api.metrics import cache
from regente.api.stream import reader
from regente.pipelines.missions.queries import ADDITIONS
from regente.pipelines.quotes.queries import SYSTEM
from tests.engine import plans
from tests.support.clean_database import clean_database

ROWS = 20_000
OF_MISSIONS = ("oldest_waiting", "running", "missions_by_checkpoint", "fleet")
OF_QUOTES = ("processing_stats", "pending", "average_seconds")
QUERIES = (
    cache.QUERIES.statements
    | reader.QUERIES.statements
    | {name: ADDITIONS[name] for name in OF_MISSIONS}
    | {name: SYSTEM[name] for name in OF_QUOTES}
)
PARAMS: dict[str, Any] = {
    "cap": 1000,
    "events": 500,
    "since": datetime(2025, 1, 1, tzinfo=UTC),
    "after_id": 0,
    "settle_seconds": 0.0,
    "back": 100,
    "after_txid": "1",
    "limit": 100,
    "ids": "{key_1}",
    "idle_seconds": 7200.0,
    "others": ["missions"],
    "pipeline": "quotes",
    "stuck_seconds": 600.0,
}


@pytest.fixture(scope="module")
def large(server_url: str, template: str) -> Iterator[str]:
    with clean_database(server_url, template) as url:
        plans.fill(url, ROWS)
        yield url


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_watching_scans_neither_tasks_nor_events(
    name: str, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10, S6: the stream under a generic plan; the metrics under their own limits."""
    monkeypatch.setattr(plans, "query", QUERIES.__getitem__)
    of_stream = name in reader.QUERIES.statements
    with psycopg.connect(large) as connection:
        if not of_stream:
            connection.execute(cache.QUERIES["metrics_limits"])
        plan = plans.explain(connection, name, PARAMS, "generic" if of_stream else "custom")
        connection.rollback()
    assert not plan.scanned & {"tasks", "events", "failures", "steps", "mission_runs"}
    assert plan.pages < 6000
