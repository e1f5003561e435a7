"""Each alert rule fires on its condition and on no other, by Prometheus' own judgement of what a
real system's `/metrics` shows. The rules of quotes: tests/pipelines/quotes/test_alerts.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regente import Fatal, Regente, Task
from regente.engine.pipeline import Registry
from tests.api.conftest import Served, body_of, with_config
from tests.api.metrics.conftest import Samples, scrape
from tests.pipelines.quotes import test_alerts
from tests.support.eventually import eventually_async
from tests.support.promtool import ALERTS, Series, firing, run, series_of
from tests.support.running import runner_in

CASES: dict[str, tuple[str, list[Series]]] = {
    "ApiDown": ("critical", [Series("up", {}, "0+0x60")]),
    "DatabaseDown": ("critical", [Series("regente_database_up", {}, "0+0x60")]),
    "NoRunner": (
        "critical",
        [
            Series("regente_runners_alive", {}, "0+0x60"),
            Series("regente_tasks", {"status": "queued", "pipeline": "waits"}, "1+0x60"),
        ],
    ),
    "RunnersKeepDying": ("warning", [Series("regente_runners_lost_total", {}, "0+1x60")]),
    "OldestWaiting": (
        "warning",
        [Series("regente_oldest_waiting_seconds", {"pipeline": "waits"}, "1801+0x60")],
    ),
    "ScheduleLate": ("warning", [Series("regente_schedule_late_seconds", {}, "301+0x60")]),
    "ScheduleDisabled": (
        "warning",
        [Series("regente_schedules", {"state": "disabled"}, "1+0x60")],
    ),
    "StuckTasks": ("warning", [Series("regente_tasks_stuck", {"pipeline": "waits"}, "11+0x60")]),
    "DeadLettersGrow": (
        "warning",
        [Series("regente_tasks", {"status": "failed", "pipeline": "fails"}, "1+2x60")],
    ),
    "MatchFailed": (
        "warning",
        [
            Series(
                "regente_tasks",
                {"status": "failed", "pipeline": "fails"},
                "1+0x60",
                {"pipeline": "matches"},
            )
        ],
    ),
    "MostAttemptsFail": ("warning", [Series("regente_runner_retried_total", {}, "0+9x60")]),
    "BatchStalled": ("warning", [Series("regente_batches", {"status": "stalled"}, "1+0x60")]),
    "ProxiesMostlyInactive": (
        "warning",
        [Series("regente_proxies", {"state": "inactive"}, "3+0x60")],
    ),
    "ProxyBreakerOpen": ("critical", [Series("regente_proxy_breaker_open", {}, "1+0x60")]),
    "NoWorkerReady": (
        "critical",
        [
            Series("regente_orchestrator_state", {"state": "open"}, "1+0x60"),
            Series("regente_missions", {"status": "draft"}, "5+0x60", {"status": "queued"}),
        ],
    ),
    "FeedLag": ("warning", [Series("regente_feed_lag_seconds", {}, "61+0x60")]),
    "StreamNotRead": ("warning", [Series("regente_stream_read_age_seconds", {}, "31+0x60")]),
    "ApiErrors": (
        "warning",
        [
            Series(
                "regente_http_request_seconds_count",
                {"route": "/api/missions"},
                "0+9x60",
                {"status": "503"},
            )
        ],
    ),
}
_MISSION = {
    "date_start": "2025-01-15",
    "date_end": "2025-01-15",
    "media_type": "video",
    "languages": ["pt"],
}


@pytest.fixture
async def healthy(api: Served, app: Regente, registry: Registry) -> Samples:
    """The metrics of a system at work: tasks in all states, a fleet, missions."""

    @registry.pipeline("works")
    async def works(task: Task) -> None: ...

    @registry.pipeline("fails")
    async def fails(task: Task) -> None:
        raise Fatal("it does", code="FAILS")

    async with app.database.connection() as connection:
        await connection.execute(
            b"INSERT INTO regente.proxies (name, host) VALUES ('a', 'h'), ('b', 'h')"
        )
    body_of(await api.operator.post("/api/missions", json={"missions": [_MISSION]}), 201)
    await app.enqueue_many("works", [{}] * 5)
    await app.enqueue("fails")
    await app.run(["works", "fails"], until_idle=True)
    registry.declare("waits")
    await app.enqueue("waits")

    async def at_work() -> Samples | None:
        found = await scrape(api)
        return found if found("regente_runners_alive") == 1 else None

    async with runner_in(app):
        found = await eventually_async(at_work)
        assert found is not None
        return found


def test_promtool_accepts_the_rules() -> None:
    """Q9: `promtool check rules`."""
    done = run("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_has_its_test() -> None:
    """Q9: here, or with the quotes."""
    names = re.findall(r"- alert: (\w+)", ALERTS.read_text())
    assert sorted(names) == sorted([*CASES, *test_alerts.ALERTS])


@with_config(metrics_seconds=0.0)
async def test_each_rule_fires_on_its_condition_alone(healthy: Samples, tmp_path: Path) -> None:
    """Q9: a system at work is silent; each condition raises its own alert."""
    assert firing(series_of(healthy), {}, tmp_path) is None
    told = {
        name: firing(series_of(healthy, changes), {name: severity}, tmp_path)
        for name, (severity, changes) in CASES.items()
    }
    assert {name: text for name, text in told.items() if text} == {}
