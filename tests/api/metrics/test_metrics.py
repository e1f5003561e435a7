"""What `/metrics` reports after tasks and missions ran."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from regente import Fatal, Regente, Task, Transient
from regente.api.metrics import cache
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from tests.api.conftest import Served, with_config
from tests.api.metrics.conftest import scrape

pytestmark = with_config(metrics_seconds=0.0)


@pytest.fixture(autouse=True)
def failures_settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SETTLE_SECONDS", 0.0)


def work_of(registry: Registry) -> None:
    @registry.pipeline("quotes", retry=Retry(max_attempts=2, first=0.01))
    async def quote(task: Task[dict[str, Any]]) -> None:
        await task.step("AI_ANALYSIS", _analyse)
        match task.args.get("ends"):
            case "fatally":
                raise Fatal("the layout changed", code="LAYOUT")
            case "late" if task.tries == 0:
                raise Transient("try again", code="TIMEOUT")


async def _analyse() -> int:
    return 1


async def test_the_metrics_of_runners_queues_and_failures(
    api: Served, app: Regente, registry: Registry, database_url: str
) -> None:
    """Q9, S6: counts and average duration; depth, dead letters, failures by class and code."""
    work_of(registry)
    await scrape(api)  # failures count from here
    await app.enqueue_many("quotes", [{}] * 5 + [{"ends": "fatally"}, {"ends": "late"}])
    await app.run(["quotes"], until_idle=True, name="first")
    await app.enqueue_many("quotes", [{}] * 3)
    found = await scrape(api)
    assert found("regente_runner_claimed_total", runner="first") == 8
    assert found("regente_runner_completed_total", runner="first") == 6
    assert found("regente_runner_failed_total", runner="first") == 1
    assert found("regente_runner_retried_total", runner="first") == 1
    assert found("regente_runner_average_seconds", runner="first") > 0
    assert found("regente_tasks", pipeline="quotes", status="queued") == 3
    assert found("regente_tasks", pipeline="quotes", status="failed") == 1
    assert (
        found("regente_failures_total", pipeline="quotes", code="LAYOUT", **{"class": "fatal"}) == 1
    )
    assert found("regente_retries_by_class_total", pipeline="quotes", **{"class": "transient"}) == 1
    assert found("regente_task_duration_average_seconds", pipeline="quotes") > 0
    assert found("regente_oldest_waiting_seconds", pipeline="quotes") > 0
    assert found("regente_runners_alive") == 0
    assert found("regente_database_up") == 1


async def test_stuck_tasks_and_checkpoints_are_counted(
    api: Served, app: Regente, registry: Registry, database_url: str
) -> None:
    """Q9: stuck_count and by_checkpoint; S6: a runner's stuck tasks; an expired lease."""
    work_of(registry)
    ids = await app.enqueue_many("quotes", [{}] * 4)
    await scrape(api)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await _pretend_runner(connection, ids)
    found = await scrape(api)
    assert found("regente_tasks_stuck", pipeline="quotes") == 3
    assert found("regente_tasks_at_checkpoint", pipeline="quotes", checkpoint="AI_ANALYSIS") == 4
    assert found("regente_runner_stuck", runner="silent") == 3
    assert found("regente_runner_up", runner="silent") == 0
    assert found("regente_last_heartbeat_age_seconds") > 900
    await app.database.fetch("mark_lost_runners")
    assert (await scrape(api))("regente_runners_lost_total") == 1


async def test_the_fleets_health_is_shown(api: Served, app: Regente, database_url: str) -> None:
    """O18: proxies, workers, orchestrator and breaker; missions by status and checkpoint."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "INSERT INTO regente.proxies (name, host, active, fail_count) VALUES ('a', "
            "'h', true, 0), ('b', 'h', false, 3)"
        )
        await connection.execute(
            "INSERT INTO regente.workers (name, url, api_key) "
            "VALUES ('w', 'http://w', 'rg2.00000000.' || repeat('A', 40))"
        )
        await connection.execute(
            "INSERT INTO regente.settings (key, value) VALUES ('proxy_breaker', '{}')"
        )
        await connection.execute(
            "INSERT INTO regente.batches (name, status) VALUES ('round', 'stalled')"
        )
    created = await api.operator.post("/api/missions", json={"missions": [_MISSION]})
    assert created.status_code in (200, 201), created.text
    found = await scrape(api)
    assert (
        found("regente_proxies", state="active"),
        found("regente_proxies", state="inactive"),
    ) == (1, 1)
    assert found("regente_proxy_fail_count", proxy="b") == 3
    assert found("regente_workers", status="idle", active="true") == 1
    assert found("regente_proxy_breaker_open") == 1
    assert found("regente_orchestrator_state") == 1
    assert found("regente_batches", status="stalled") == 1
    assert found("regente_missions", status="draft") == 1


async def test_requests_are_counted_by_route_and_not_by_path(api: Served) -> None:
    """S6: one series for all runners, none for unauthenticated requests."""
    for number in range(3):
        await api.viewer.get(f"/api/runners/{number + 1}")
    await api.anonymous.get("/api/runners/7")
    found = await scrape(api)
    assert (
        found("regente_http_request_seconds_count", route="/api/runners/{runner_id}", status="404")
        == 3
    )
    assert found("regente_http_request_seconds_count", route="none", status="401") == 1


async def test_a_transaction_that_pins_the_feed_shows_as_lag(
    api: Served, database_url: str
) -> None:
    """I11: a feed that is late is visible in the metrics."""
    async with await psycopg.AsyncConnection.connect(database_url) as slow:
        await slow.execute("INSERT INTO regente.events (event) VALUES ('pins')")
        async with await psycopg.AsyncConnection.connect(database_url) as quick:
            await quick.execute(
                "INSERT INTO regente.events (event, at) VALUES ('late', now() - interval '90 s')"
            )
        assert (await scrape(api))("regente_feed_lag_seconds") >= 90


async def test_metrics_need_a_key(api: Served) -> None:
    """O18: closed like every route."""
    assert (await api.anonymous.get("/metrics")).status_code == 401


async def _pretend_runner(connection: psycopg.AsyncConnection[Any], ids: list[int]) -> None:
    """A lost runner that had claimed four tasks, three of them without a heartbeat for an hour."""
    await connection.execute(
        "INSERT INTO regente.pipelines (name, stall_after) VALUES ('quotes', '10 minutes') "
        "ON CONFLICT DO NOTHING"
    )
    row = await connection.execute(
        "INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, "
        "heartbeat_at, lease_until, amnesties) "
        "VALUES ('silent', 'h', 1, '0', '{quotes}', 4, now() - interval '1 hour', now() - "
        "interval '59 minutes', 2) RETURNING id"
    )
    (runner_id,) = await row.fetchone() or (None,)
    await connection.execute(
        "UPDATE regente.tasks SET status = 'running', runner_id = %s, attempt = 1, "
        "checkpoint = 'AI_ANALYSIS', "
        "heartbeat_at = CASE WHEN id = %s THEN now() ELSE now() - interval '1 hour' END "
        "WHERE id = ANY (%s)",
        (runner_id, ids[0], ids),
    )


_MISSION = {
    "date_start": "2025-01-15",
    "date_end": "2025-01-15",
    "media_type": "video",
    "languages": ["pt"],
}
