"""Events, their exports, the four reports and the overview, after missions ran."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regente import Regente
from regente.api.csv_text import csv_line
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.api.conftest import Served, body_of
from tests.pipelines.missions.conftest import MISSION, QUICK, conducting, finished
from tests.support.eventually import eventually_async
from tests.support.peers import ScriptedWorker, ScriptedWriter, stored


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    quick: dict[str, Any] = dict(QUICK)
    return Settings(data_dir=tmp_path, **quick)


@pytest.fixture
async def app(database_url: str, registry: Registry, settings: Settings) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        opened.conduct_missions()
        yield opened


async def ran_missions(app: Regente) -> tuple[list[int], str]:
    """One completed and one failed mission; their worker's id."""
    worker, writer = ScriptedWorker("w1"), ScriptedWriter("x1")
    worker.job_script = [[{"status": "completed", "ads_count": 3}], *([[{"status": "failed"}]] * 3)]
    writer.job_script = [[stored(2, failed=1)]]
    async with conducting(app, worker, writer, proxies=3):
        (done,) = await app.missions.create([MISSION], queue=True)
        await finished(app, done)
        (failed,) = await app.missions.create([MISSION], queue=True)
        await finished(app, failed)
    members = await app.fleet.members("worker")
    return [done, failed], members[0].id


async def test_the_audit_is_filtered_by_mission_type_worker_and_time(
    api: Served, app: Regente
) -> None:
    """O17, O18: events, reports and counters of the same two missions."""
    (done, failed), worker_id = await ran_missions(app)

    async def events(**params: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (
            body_of(await api.viewer.get("/api/events", params={"limit": 500, **params}))
        )["items"]
        return items

    of_mission = {one["event"] for one in await events(mission_id=done)}
    assert {
        "session_started",
        "session_ready",
        "mission_assigned",
        "scrape_completed",
        "writer_completed",
    } <= of_mission
    assert {one["event"] for one in await events(types=["scrape_completed", "scrape_failed"])} == {
        "scrape_completed",
        "scrape_failed",
    }
    on_worker = await events(worker_id=worker_id)
    assert {one["details"]["worker_id"] for one in on_worker} == {worker_id}
    everything = await events()
    check_newest_first(everything)
    middle = everything[len(everything) // 2]["at"]
    assert len(await events(since=middle)) + len(await events(until=middle)) == len(everything)
    assert await events(task_id=done, types=["task_completed"])
    assert not await events(batch_id=1)
    await check_pages(api, [one["position"] for one in everything])
    await check_reports(api, done, failed)
    await check_figures(api)
    items = body_of(await api.viewer.get(f"/api/missions/{done}/failed-items"))
    assert [item["error"] for item in items] == ["told to"]


def check_newest_first(events: list[dict[str, Any]]) -> None:
    """In the feed's order; `at` is the start of a transaction, so concurrent ones may differ."""
    positions = [tuple(int(part) for part in one["position"].split("-")) for one in events]
    assert positions == sorted(set(positions), reverse=True)
    times = [datetime.fromisoformat(one["at"]) for one in events]
    assert all(later > earlier - timedelta(seconds=1) for later, earlier in pairwise(times))
    assert times[0] > times[-1]


async def check_pages(api: Served, positions: list[str]) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 17, **({"cursor": cursor} if cursor else {})}
        page = body_of(await api.viewer.get("/api/events", params=params))
        seen += [one["position"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == positions
    text = (await api.viewer.get("/api/events/export", params={"format": "csv"})).text
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][:3] == ["position", "at", "event"]
    assert [row[0] for row in rows[1:]] == positions
    audited, *exported = body_of(
        await api.viewer.get("/api/events/export", params={"format": "json"})
    )
    assert audited["details"]["action"] == "events.export"
    assert [one["position"] for one in exported] == positions


async def check_reports(api: Served, done: int, failed: int) -> None:
    log = body_of(await api.viewer.get(f"/api/reports/missions/{done}/timeline"))
    assert log[-1]["event"] == "mission_completed"
    (report,) = body_of(await api.viewer.get("/api/reports/failures"))
    assert (report["mission_id"], report["error_code"], report["retry_count"]) == (
        failed,
        "ERROR203",
        2,
    )
    (worker,) = body_of(await api.viewer.get("/api/reports/workers"))
    assert (worker["worker_name"], worker["completed_count"], worker["failed_count"]) == (
        "w1",
        1,
        3,
    )
    proxies = body_of(await api.viewer.get("/api/reports/proxies"))
    assert sorted(one["name"] for one in proxies) == ["proxy-1", "proxy-2", "proxy-3"]
    assert sum(one["rotations"] for one in proxies) > 0


async def check_figures(api: Served) -> None:
    async def settled() -> dict[str, Any] | None:
        found: dict[str, Any] = body_of(await api.viewer.get("/api/stats"))
        return found if found["health"]["runners"] == 0 else None

    stats = await eventually_async(settled)
    assert stats is not None
    outcomes: dict[str, int] = {}
    for bucket in stats["throughput"]:
        outcomes[bucket["outcome"]] = outcomes.get(bucket["outcome"], 0) + bucket["count"]
    assert outcomes["failed"] == 1
    assert outcomes["completed"] >= 1
    assert {"queue", "session", "scrape", "writer", "total"} == {
        one["phase"] for one in stats["phases"]
    }
    assert [(one["code"], one["tasks"]) for one in stats["errors"]] == [("ERROR203", 1)]
    assert "DEAD_LETTERS" in [one["code"] for one in stats["attention"]]
    assert (stats["health"]["active_proxies"], stats["health"]["active_writers"]) == (3, 1)
    workers = body_of(await api.viewer.get("/api/workers"))
    assert workers[0]["missions"] == 4
    assert sum(one["sessions"] for one in body_of(await api.viewer.get("/api/proxies"))) > 0


async def test_an_empty_system_has_an_overview(api: Served) -> None:
    """O18: an empty database is no error."""
    stats = body_of(
        await api.viewer.get(
            "/api/stats", params={"window_seconds": 86_400, "pipeline": "missions"}
        )
    )
    assert (stats["attention"], stats["queues"], stats["throughput"]) == ([], [], [])
    for path in (
        "/api/events/export",
        "/api/events/export?format=json",
        "/api/reports/workers",
        "/api/reports/proxies",
    ):
        assert (await api.viewer.get(path)).status_code == 200


def test_a_cell_that_would_be_a_formula_is_text() -> None:
    """O18: CSV cells are escaped against formulas."""
    line = csv_line(["=1+1", "+cmd", "-2", "@x", "\tx", "  =1", 'a "b", c', None, -5, {"a": "=1"}])
    assert next(csv.reader(io.StringIO(line))) == [
        "'=1+1",
        "'+cmd",
        "'-2",
        "'@x",
        "'\tx",
        "'  =1",
        'a "b", c',
        "",
        "-5",
        '{"a": "=1"}',
    ]
