"""Schedules over HTTP: set, list, runs, next times, pause, resume, remove; audit and metrics."""

from __future__ import annotations

from typing import Any

import pytest

from regente import Regente, Task
from regente.engine.pipeline import Registry
from regente.engine.watchdog.schedules import ScheduleSweep
from tests.api.conftest import Served, body_of, events_of, with_config
from tests.api.metrics.conftest import scrape

pytestmark = with_config(metrics_seconds=0.0)
STRANGE = "shop/a b?c=d&e=ü"
RULES = {"pipeline": "pages", "cron": "0 4 1 1 *", "overlap": "queue", "catch_up": "all"}


@pytest.fixture
def registry() -> Registry:
    found = Registry()

    @found.pipeline("pages")
    async def pages(task: Task[dict[str, Any]]) -> None:
        pass

    return found


THREE_YEARS_DUE = """
UPDATE regente.schedules SET next_at = date_trunc('year', regente.clock()) - interval '2 years'"""


async def test_a_schedule_is_set_and_shown(api: Served, app: Regente) -> None:
    """O18, Q4: secrets in its arguments are hidden."""
    body = {"name": STRANGE, **RULES, "args": {"password": "hunter2", "n": 1}}
    made = body_of(await api.operator.post("/api/schedules/set", json=body))
    assert (made["overlap"], made["catch_up"], made["state"]) == ("queue", "all", "enabled")
    assert "hunter2" not in str(made)
    [listed] = body_of(await api.viewer.get("/api/schedules"))
    assert listed == made
    [stored] = await app.schedules()
    assert stored["args"] == {"password": "hunter2", "n": 1}
    times = body_of(
        await api.viewer.get("/api/schedules/next", params={"name": STRANGE, "count": "3"})
    )
    assert [time[4:16] for time in times] == ["-01-01T04:00"] * 3


async def test_what_became_of_its_times_is_listed_in_pages(api: Served, app: Regente) -> None:
    """O18, Q4, Q5."""
    await app.schedule("s", "pages", "0 0 1 1 *", overlap="queue", catch_up="all")
    async with app.database.transaction() as connection:
        await connection.execute(THREE_YEARS_DUE)
    await ScheduleSweep(app.database, 1).run_once()
    page = {"name": "s", "limit": "2"}
    first = body_of(await api.viewer.get("/api/schedules/runs", params=page))
    assert [run["state"] for run in first["items"]] == ["waiting", "waiting"]
    page["before"] = first["next"]
    rest = body_of(await api.viewer.get("/api/schedules/runs", params=page))
    assert ([run["state"] for run in rest["items"]], rest["next"]) == (["queued"], None)
    assert rest["items"][0]["task_status"] == "queued"
    samples = await scrape(api)
    assert samples("regente_schedules", state="enabled") == 1
    assert samples("regente_schedule_runs_waiting") == 2
    assert samples("regente_schedule_late_seconds") == 0


async def test_a_schedule_is_paused_resumed_and_removed(api: Served, app: Regente) -> None:
    """O18, Q4: with an audit event each."""
    await app.schedule(STRANGE, "pages", "0 4 * * *")
    name = {"name": STRANGE}
    paused = body_of(await api.operator.post("/api/schedules/pause", json=name))
    assert paused["state"] == "paused"
    assert (await scrape(api))("regente_schedules", state="paused") == 1
    assert body_of(await api.viewer.get("/api/schedules/next", params=name)) == []
    body = {**name, "skip_missed": True}
    resumed = body_of(await api.operator.post("/api/schedules/resume", json=body))
    assert (resumed["state"], resumed["paused_at"]) == ("enabled", None)
    assert body_of(await api.operator.post("/api/schedules/remove", json=name)) == {
        "removed": STRANGE
    }
    assert await app.schedules() == []
    actions = await events_of(app, "operator_action")
    assert [one["target"] for one in actions] == [{"schedule": STRANGE}] * 3


async def test_a_time_that_no_runner_sees_is_late(api: Served, app: Regente) -> None:
    """Q9."""
    await app.schedule("s", "pages", "0 4 * * *")
    async with app.database.transaction() as connection:
        await connection.execute(
            "UPDATE regente.schedules SET next_at = regente.clock() - interval '1 hour'"
        )
    assert (await scrape(api))("regente_schedule_late_seconds") >= 3600


@pytest.mark.parametrize("path", ["pause", "resume", "remove"])
async def test_a_schedule_that_is_not_there_is_not_found(api: Served, path: str) -> None:
    answer = await api.operator.post(f"/api/schedules/{path}", json={"name": "none"})
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a\x00"},
        {"cron": "every day"},
        {"timezone": "Mars/Olympus"},
        {"overlap": "both"},
        {"catch_up": 1},
        {"jitter_seconds": -1},
        {"priority": 40_000},
        {"args": [1]},
        {"unknown": 1},
    ],
)
async def test_what_is_refused(api: Served, app: Regente, change: dict[str, Any]) -> None:
    """O18: nothing changes."""
    body = {"name": "s", **RULES, **change}
    answer = await api.operator.post("/api/schedules/set", json=body)
    assert answer.status_code == 422, answer.text
    assert await app.schedules() == []
