"""Missions over HTTP: created, listed, queued, canceled, retried, explained."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import DAY, Served, body_of, events_of

RANGE = {
    "date_start": "2025-01-01",
    "date_end": "2025-01-10",
    "media_types": ["video", "image"],
    "languages": [["pt"], ["es", "en"]],
}


async def made(api: Served, **body: Any) -> list[int]:
    ids: list[int] = (body_of(await api.operator.post("/api/missions", json=body), 201))["ids"]
    return ids


async def test_a_range_makes_one_mission_for_each_day_media_type_and_group_of_languages(
    api: Served,
) -> None:
    """O2, O19: many at once, all or none, with a preview."""
    dry = body_of(
        await api.operator.post("/api/missions", json={"range": RANGE, "dry_run": True}), 201
    )
    assert dry == {"count": 40, "ids": [], "dry_run": True}
    ids = await made(api, range=RANGE)
    assert len(ids) == 40
    page = body_of(await api.viewer.get("/api/missions", params={"limit": 500, "count": True}))
    assert (len(page["items"]), page["total"], page["total_is_capped"], page["next"]) == (
        40,
        40,
        False,
        None,
    )
    first = page["items"][-1]
    assert (first["status"], first["checkpoint"], first["media_type"], first["languages"]) == (
        "draft",
        None,
        "video",
        ["pt"],
    )
    (noted,) = await events_of(api.app, "operator_action")
    assert (noted["by"], noted["action"], noted["after"]) == (
        "the-operator",
        "missions.create",
        {"created": 40, "queued": False},
    )
    both = await api.operator.post("/api/missions", json={"range": RANGE, "missions": [DAY]})
    assert both.status_code == 422
    wide = {**RANGE, "date_start": "1000-01-01", "date_end": "2025-01-01"}
    assert (body_of(await api.operator.post("/api/missions", json={"range": wide}), 422))[
        "code"
    ] == "INVALID_INPUT"


async def test_pages_have_no_gap_and_no_duplicate(api: Served) -> None:
    """O19: keyset pages."""
    ids = await made(api, range=RANGE)
    seen: list[int] = []
    cursor = None
    while True:
        params = {"limit": 7, **({"cursor": cursor} if cursor else {})}
        page = body_of(await api.viewer.get("/api/missions", params=params))
        seen += [one["id"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=True)


async def test_every_filter_returns_the_matching_missions(api: Served) -> None:
    """O19: filters."""
    await made(api, range=RANGE)
    (one,) = await made(
        api, missions=[{**DAY, "date_start": "2025-02-01", "date_end": "2025-02-03"}], queue=True
    )

    async def count(**params: Any) -> int:
        return int(
            (body_of(await api.viewer.get("/api/missions", params={**params, "count": True})))[
                "total"
            ]
        )

    assert await count(statuses="draft") == 40
    assert await count(statuses=["draft", "queued"]) == 41
    assert await count(statuses="running") == 0
    assert await count(media_type="video") == 21
    assert await count(language="en") == 20
    assert await count(date_from="2025-01-09") == 9
    assert await count(date_to="2025-01-01") == 4
    assert await count(date_from="2025-02-01", statuses="queued", checkpoint="atribuido") == 1
    assert (
        await count(worker_id="wk_0")
        == await count(proxy="none")
        == await count(error_code="ERROR203")
        == 0
    )
    assert await count(date_from="2025-01-05", date_to="2025-01-05", checkpoint="finalizado") == 0
    assert await count(date_from="2025-01-05", date_to="2025-01-05") == 4
    assert (body_of(await api.viewer.get(f"/api/missions/{one}")))["queued_at"] is not None


async def test_one_mission_is_queued_canceled_and_retried_with_who_before_and_after(
    api: Served,
) -> None:
    """O5, O12, O18: single actions and their audit."""
    (one,) = await made(api, missions=[DAY])
    queued = body_of(await api.operator.post(f"/api/missions/{one}/queue"))
    assert (queued["status"], queued["checkpoint"]) == ("queued", "atribuido")
    assert body_of(await api.operator.post(f"/api/missions/{one}/cancel")) == {
        "id": one,
        "status": "canceled",
    }
    assert (body_of(await api.operator.post(f"/api/missions/{one}/retry")))["status"] == "queued"
    again = body_of(await api.operator.post(f"/api/missions/{one}/retry"), 409)
    assert again["code"] == "ILLEGAL_TRANSITION"
    noted = [
        note
        for note in await events_of(api.app, "operator_action")
        if note["action"] != "missions.create"
    ]
    assert [
        (note["action"], note["before"]["status"], note["after"]["status"]) for note in noted
    ] == [
        ("missions.queue_one", "draft", "queued"),
        ("missions.cancel", "queued", "canceled"),
        ("missions.retry", "canceled", "queued"),
    ]
    log = body_of(await api.viewer.get(f"/api/missions/{one}/timeline"))
    assert [(line["event"], line["details"]) for line in log][:2] == [
        ("mission_queued", {"queued_by": "the-operator"}),
        ("mission_canceled", {"canceled_by": "the-operator", "previous_checkpoint": "atribuido"}),
    ]


async def test_a_mission_explains_its_wait_and_lists_failed_items(api: Served) -> None:
    """O18: why, and failed items."""
    (one,) = await made(api, missions=[DAY], queue=True)
    why = body_of(await api.viewer.get(f"/api/missions/{one}/why"))
    assert why["code"] in ("NO_RUNNER", "NO_WORKER", "STOPPED")
    assert why["summary"]
    async with api.app.database.connection() as connection:
        await connection.execute(
            b"INSERT INTO regente.mission_failed_items (mission_id, index, data, error) "
            b"VALUES (%s, 42, '{\"id\": \"ad42\"}', 'told to')",
            [one],
        )
    items = body_of(await api.viewer.get(f"/api/missions/{one}/failed-items"))
    assert items == [{"index": 42, "data": {"id": "ad42"}, "error": "told to"}]
    assert (await api.viewer.get("/api/missions/999/failed-items")).status_code == 404


async def test_the_orchestrator_starts_stops_and_shows_its_state(api: Served) -> None:
    """O13, O16: start, stop, and settings that change while it runs."""
    assert (body_of(await api.viewer.get("/api/orchestrator")))["state"] == "closed"
    assert (body_of(await api.operator.post("/api/orchestrator/start")))["state"] == "open"
    stopped = body_of(await api.operator.post("/api/orchestrator/stop", params={"now": True}))
    assert (stopped["state"], stopped["stopped_by"]) == ("halting", "the-operator")
    changed = body_of(await api.admin.patch("/api/settings", json={"session_limit": 8}))
    assert (changed["session_limit"], changed["max_retries"]) == (8, 2)
    assert changed["fixed"]["timeout_session_seconds"] == 180.0
    assert (await api.admin.patch("/api/settings", json={"session_limit": 0})).status_code == 422
    noted = [
        note
        for note in await events_of(api.app, "operator_action")
        if note["action"] == "settings.change"
    ]
    assert (noted[0]["before"], noted[0]["after"]) == ({"session_limit": 5}, {"session_limit": 8})


async def test_retention_is_a_setting_that_admins_change(api: Served) -> None:
    """O16: the stored value wins over the environment's; the audit has author, before and after."""
    assert body_of(await api.viewer.get("/api/settings"))["retention_days"] == 30
    assert (
        body_of(await api.admin.patch("/api/settings", json={"retention_days": 7}))[
            "retention_days"
        ]
        == 7
    )
    assert (
        body_of(await api.admin.patch("/api/settings", json={"retention_days": 0.5}))[
            "retention_days"
        ]
        == 0.5
    )
    assert (
        await api.operator.patch("/api/settings", json={"retention_days": 1})
    ).status_code == 403
    assert body_of(await api.viewer.get("/api/settings"))["retention_days"] == 0.5
    changes = [
        (one["before"], one["after"], one["by"])
        for one in await events_of(api.app, "setting_changed")
    ]
    assert changes == [(30, 7, "the-admin"), (7, 0.5, "the-admin")]
    noted = [
        note
        for note in await events_of(api.app, "operator_action")
        if note["action"] == "settings.change"
    ]
    assert (noted[0]["before"], noted[0]["after"]) == (
        {"retention_days": 30},
        {"retention_days": 7},
    )


@pytest.mark.parametrize("days", [0, -1, 0.04, 36_501, True, "30", "soon", [30]])
async def test_an_invalid_retention_is_refused(api: Served, days: object) -> None:
    """O16, F15: less than an hour, more than a century, or no number; the error names the field."""
    answer = await api.admin.patch("/api/settings", json={"retention_days": days})
    assert "retention_days" in str(body_of(answer, 422)["errors"])
    assert body_of(await api.viewer.get("/api/settings"))["retention_days"] == 30


async def test_missions_are_counted_by_state(api: Served) -> None:
    """O19: counts."""
    await made(api, range=RANGE)
    assert (body_of(await api.viewer.get("/api/missions/counts")))["draft"] == 40
