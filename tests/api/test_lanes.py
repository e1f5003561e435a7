"""Lanes over HTTP: list, show, set, park, open; their audit events, metrics and `why`."""

from __future__ import annotations

from typing import Any

import pytest

from regente import LaneLimits, Regente, Task
from regente.engine.lanes import look_at_lanes
from regente.engine.pipeline import Registry
from tests.api.conftest import Served, body_of, events_of, with_config
from tests.api.metrics.conftest import scrape

pytestmark = with_config(metrics_seconds=0.0)
STRANGE = "https://shop.example/a b?c=d&e=ü/show"


@pytest.fixture
def registry() -> Registry:
    found = Registry()
    limits = LaneLimits(concurrency=4)

    @found.pipeline("pages", lane=lambda args: args["host"], lane_limits=limits)
    async def pages(task: Task[dict[str, Any]]) -> None:
        pass

    return found


async def filled(app: Regente, *lanes: str) -> None:
    for lane in lanes:
        await app.enqueue("pages", {"host": lane})
    await look_at_lanes(app.database.fetch, [(lane, "pages") for lane in lanes])


async def test_lanes_are_listed_in_pages(api: Served, app: Regente) -> None:
    """O18, Q2."""
    await filled(app, "b", "a", STRANGE)
    first = body_of(await api.viewer.get("/api/lanes", params={"limit": 2}))
    assert ([one["name"] for one in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = body_of(await api.viewer.get("/api/lanes", params={"limit": 2, "after": "b"}))
    assert ([one["name"] for one in rest["items"]], rest["next"]) == ([STRANGE], None)
    assert rest["items"][0]["queued"] == 1
    shown = body_of(await api.viewer.get("/api/lanes/show", params={"name": STRANGE}))
    assert (shown["status"], shown["pipeline"]) == ("waiting", "pages")
    missing = await api.viewer.get("/api/lanes/show", params={"name": "none"})
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


async def test_lanes_are_set_parked_and_opened(api: Served, app: Regente) -> None:
    """O18: with an audit event that tells who, before and after."""
    await filled(app, STRANGE)
    body: dict[str, Any] = {"name": STRANGE, "rate": 0.5, "concurrency": 2}
    assert body_of(await api.operator.post("/api/lanes/set", json=body))["rate"] == 0.5
    body = {"name": STRANGE, "rate": None}
    changed = body_of(await api.operator.post("/api/lanes/set", json=body))
    assert (changed["rate"], changed["own"]) == (None, ["concurrency"])
    body = {"name": STRANGE, "seconds": 60, "reason": "maintenance"}
    parked = body_of(await api.operator.post("/api/lanes/park", json=body))
    assert (parked["status"], parked["parked_because"]) == ("parked", "maintenance")
    [task] = await app.tasks()
    assert body_of(await api.viewer.get(f"/api/tasks/{task.id}"))["lane"] == STRANGE
    async with app.database.connection() as connection:
        await connection.execute(
            "INSERT INTO regente.lane_calls (task_id, attempt, number, lane, entered_at) "
            "VALUES (1, 1, 1, 'a', regente.clock()), (1, 1, 2, 'a', NULL)"
        )
    samples = await scrape(api)
    assert samples("regente_lanes", state="parked") == 1
    assert samples("regente_lanes", state="known") == 1
    states = [samples("regente_lane_calls", state=state) for state in ("running", "waiting")]
    assert states == [1, 1]
    opened = body_of(await api.operator.post("/api/lanes/open", json={"name": STRANGE}))
    assert opened["status"] == "waiting"
    actions = await events_of(app, "operator_action")
    assert [one["target"] for one in actions] == [{"lane": STRANGE}] * 4
    assert actions[1]["before"] == {"rate": 0.5}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("set", {"name": "a"}),
        ("set", {"name": "a", "rate": 0}),
        ("set", {"name": "a", "concurrency": True}),
        ("set", {"name": "a\x00", "rate": 1}),
        ("set", {"name": "x" * 201, "rate": 1}),
        ("set", {"name": "a", "unknown": 1}),
        ("park", {"name": "a", "seconds": -1}),
        ("park", {"name": "a", "reason": "\x00"}),
        ("open", {"name": ""}),
    ],
)
async def test_what_is_refused(api: Served, app: Regente, path: str, body: dict[str, Any]) -> None:
    """O18: nothing changes."""
    await filled(app, "a")
    answer = await api.operator.post(f"/api/lanes/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert (await app.lanes.show("a")).own == []
