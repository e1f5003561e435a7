"""Rounds over HTTP: the specification's two endpoints, and the tables of the console."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from regente import Regente
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from tests.api.conftest import Served, body_of, events_of, served
from tests.pipelines.rounds.conftest import LEAGUE


@pytest.fixture
async def api(app: Regente) -> AsyncIterator[Served]:
    async with served(app) as found:
        yield found


async def test_a_round_over_http_from_its_start_to_its_repair(
    api: Served, app: Regente, league: League
) -> None:
    """Z4, Z5: start, list, the dead letter with its page, retry of the failed matches only."""
    victim = league.calendar.round(LEAGUE, 12)[2].id
    league.break_with("layout", match_id=victim)
    body = {"league": LEAGUE, "round": 12}
    started = body_of(await api.operator.post("/api/scrape", json=body), 202)
    assert (started["job_id"], started["league"], started["round"], started["status"]) == (
        1,
        LEAGUE,
        12,
        "PENDING",
    )
    assert body_of(await api.operator.post("/api/scrape", json=body), 202) == started
    await app.run(until_idle=True)
    (listed,) = body_of(await api.viewer.get("/api/rounds"))["items"]
    assert (listed["status"], listed["listed"], listed["finished"], listed["failed"]) == (
        "INCOMPLETE",
        10,
        9,
        1,
    )
    shown = body_of(await api.viewer.get("/api/rounds/1"))
    assert [match["match_id"] for match in shown["matches"]] == [
        match.id for match in league.calendar.round(LEAGUE, 12)
    ]
    detail = body_of(await api.viewer.get(f"/api/rounds/1/matches/{victim}"))
    assert (detail["status"], detail["error_code"], detail["event_list"]) == (
        "FAILED",
        "LAYOUT_CHANGED",
        [],
    )
    (failure,) = detail["failures"]
    assert (failure["failure_class"], failure["snapshots"]) == ("fatal", ["page.html"])
    assert failure["details"] == {"missing": "article#match"}
    stored = body_of(
        await api.viewer.get(f"/api/rounds/1/matches/{shown['matches'][0]['match_id']}")
    )
    assert (len(stored["event_list"]), len(stored["stat_list"]), stored["failures"]) == (
        stored["events"],
        16,
        [],
    )
    league.reset()
    retried = body_of(await api.operator.post("/api/scrape/retry-failed", json={"job_id": 1}), 202)
    assert retried == {"selected": 1, "retried": 1, "task_ids": [detail["task_id"]]}
    await app.run(until_idle=True)
    assert body_of(await api.viewer.get("/api/rounds/1"))["status"] == "FINISHED"
    assert body_of(await api.operator.post("/api/rounds/1/retry-failed"), 202)["selected"] == 0
    assert body_of(await api.operator.post("/api/scrape/retry-failed"), 202)["selected"] == 0
    assert league.calls == {f"match {victim}": 1}
    actions = [one["action"] for one in await events_of(app, "operator_action")]
    assert actions[:3] == ["scrape.start", "scrape.start", "scrape.retry_failed"]


async def test_rounds_come_in_pages_and_what_is_wrong_is_refused(api: Served) -> None:
    """Z5: filters, cursors, clear errors; a refused start stores nothing."""
    for number in (1, 2, 3):
        body_of(
            await api.operator.post("/api/scrape", json={"league": LEAGUE, "round": number}), 202
        )
    body_of(await api.operator.post("/api/scrape", json={"league": "serie-b", "round": 1}), 202)
    page = body_of(await api.viewer.get("/api/rounds", params={"league": LEAGUE, "limit": 2}))
    assert ([one["number"] for one in page["items"]], page["next"]) == ([3, 2], "2")
    page = body_of(
        await api.viewer.get("/api/rounds", params={"league": LEAGUE, "limit": 2, "cursor": "2"})
    )
    assert ([one["number"] for one in page["items"]], page["next"]) == ([1], None)
    assert len(body_of(await api.viewer.get("/api/rounds", params={"number": 1}))["items"]) == 2
    batch_id = page["items"][0]["batch_id"]
    assert (
        body_of(await api.viewer.get("/api/rounds", params={"batch_id": batch_id}))["items"]
        == page["items"][:1]
    )
    assert body_of(await api.viewer.get("/api/rounds", params={"batch_id": 99_999}))["items"] == []
    for body in (
        {"league": "Série B", "round": 1},
        {"league": "x"},
        {"league": "x", "round": 0},
        {"league": "x", "round": 1, "y": 1},
    ):
        assert (
            body_of(await api.operator.post("/api/scrape", json=body), 422)["code"] == "VALIDATION"
        )
    assert (
        body_of(await api.operator.post("/api/scrape/retry-failed", json={"job_id": 99}), 404)[
            "code"
        ]
        == "NOT_FOUND"
    )
    for path in ("/api/rounds/99", "/api/rounds/99/matches/x", "/api/rounds/1/matches/x"):
        assert body_of(await api.viewer.get(path), 404)["code"] == "NOT_FOUND"
    assert (
        body_of(await api.operator.post("/api/rounds/99/retry-failed"), 404)["code"] == "NOT_FOUND"
    )
    assert len(body_of(await api.viewer.get("/api/rounds"))["items"]) == 4


async def test_a_started_round_survives_the_api(app: Regente, league: League) -> None:
    """Z9: the queue is in the database, and the runner is another process."""
    async with served(app) as api:
        body_of(await api.operator.post("/api/scrape", json={"league": LEAGUE, "round": 12}), 202)
    assert league.calls == {}, "nothing runs inside the API"
    await app.run(until_idle=True)
    assert (await RoundOperations(app).get(1)).status == "FINISHED"
