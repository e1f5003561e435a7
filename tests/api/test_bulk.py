"""Bulk actions by ids or filter: preview, progress, and continuation after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.bulk.actions import BulkAction, BulkActions
from regente.api.bulk.runner import BulkRunner
from regente.api.config import ApiConfig
from regente.api.queries import LimitedDatabase
from regente.pipelines.missions.args import MissionArgs
from tests.api.conftest import Served, body_of, events_of, with_config
from tests.api.processes import caller, command
from tests.support.eventually import eventually_async

MISSION = MissionArgs(
    date_start=date(2025, 1, 15), date_end=date(2025, 1, 15), media_type="video", languages=("pt",)
)


async def ended(api: Served, action_id: int) -> dict[str, object]:
    async def done() -> dict[str, object] | None:
        action: dict[str, object] = body_of(await api.viewer.get(f"/api/actions/{action_id}"))
        return action if action["status"] != "running" else None

    found = await eventually_async(done)
    assert found is not None
    return found


async def test_a_small_action_is_done_when_it_answers(api: Served, app: Regente) -> None:
    """O5, O19: queue many by id; those in another state and other tasks are unchanged."""
    ids = await app.missions.create([MISSION] * 5)
    await app.missions.queue(ids[:1])
    wanted = {"ids": [*ids, 10**9]}
    dry = body_of(await api.operator.post("/api/missions/queue", json={**wanted, "dry_run": True}))
    assert (dry["total"], dry["by_status"], dry["would_change"], dry["missing"]) == (
        6,
        {"draft": 4, "queued": 1},
        4,
        1,
    )
    assert (await app.missions.counts())["draft"] == 4
    answer = await api.operator.post("/api/missions/queue", json={**wanted, "reason": "tonight"})
    action = body_of(answer)
    assert (action["status"], action["total"], action["done"], action["changed"]) == (
        "completed",
        6,
        6,
        4,
    )
    assert answer.headers["location"] == f"/api/actions/{action['id']}"
    assert (await app.missions.counts())["queued"] == 5
    noted = await events_of(app, "operator_action")
    assert [(note["action"], note["by"], note["target"]["reason"]) for note in noted] == [
        ("missions.queue", "the-operator", "tonight")
    ]


@with_config(inline_items=10, chunk_items=20)
async def test_a_large_action_by_filter_runs_in_the_background_with_progress(
    api: Served, app: Regente
) -> None:
    """O19: bulk action on all matches."""
    await app.missions.create([MISSION] * 95)
    answer = await api.operator.post(
        "/api/missions/queue", json={"filter": {"statuses": ["draft"]}}
    )
    action = body_of(answer, 202)
    assert (action["total"], action["filter"]) == (95, {"filter": {"statuses": ["draft"]}})
    done = await ended(api, action["id"])
    assert (done["status"], done["done"], done["changed"]) == ("completed", 95, 95)
    first = body_of(
        await api.operator.post(
            "/api/missions/cancel", json={"filter": {"statuses": ["queued"]}, "limit": 10}
        )
    )
    assert (first["total"], first["changed"]) == (10, 10)
    retried = body_of(
        await api.operator.post("/api/missions/retry", json={"filter": {"statuses": ["canceled"]}})
    )
    assert retried["changed"] == 10
    listed = body_of(await api.viewer.get("/api/actions"))
    assert [one["kind"] for one in listed["items"]] == [
        "missions.retry",
        "missions.cancel",
        "missions.queue",
    ]


async def test_a_selection_names_ids_or_a_filter(api: Served) -> None:
    """O19: neither, both, or an empty list are refused."""
    wrong: list[dict[str, object]] = [
        {},
        {"ids": [1], "filter": {}},
        {"ids": []},
        {"ids": [0]},
        {"filter": {"colour": "red"}},
    ]
    for body in wrong:
        assert (await api.operator.post("/api/missions/queue", json=body)).status_code == 422, body
    assert (body_of(await api.operator.post("/api/missions/queue", json={"filter": {}})))[
        "total"
    ] == 0
    assert (await api.viewer.get("/api/actions/7")).status_code == 404


async def test_an_action_continues_after_a_kill_and_a_restart(
    app: Regente, database_url: str, tmp_path: Path
) -> None:
    """O18: no mission is queued twice."""
    count = 6000
    await app.missions.create([MISSION] * count)
    key = await ApiKeys(LimitedDatabase(app.database)).create("ana", Role.OPERATOR, by="test")
    headers = {"x-api-key": key.secret}
    async with (
        command(database_url, tmp_path, kill=True) as told,
        caller(told["url"], headers) as client,
    ):
        answer = await client.post("/api/missions/queue", json={"filter": {"statuses": ["draft"]}})
        action = body_of(answer, 202)

        async def begun() -> bool:
            return bool(body_of(await client.get(f"/api/actions/{action['id']}"))["done"] > 0)

        assert await eventually_async(begun)
    async with app.database.connection() as connection:
        rows = await (
            await connection.execute(b"SELECT done, status::text FROM regente.actions")
        ).fetchall()
        assert rows[0][0] < count
        assert rows[0][1] == "running"
        await connection.execute(
            b"UPDATE regente.actions SET lease_until = regente.clock()"
        )  # instead of waiting for it
    async with command(database_url, tmp_path) as told, caller(told["url"], headers) as client:

        async def done() -> dict[str, Any] | None:
            found: dict[str, Any] = body_of(await client.get(f"/api/actions/{action['id']}"))
            return found if found["status"] == "completed" else None

        assert (await eventually_async(done, within_seconds=30))["done"] == count  # type: ignore[index]
    async with app.database.connection() as connection:
        query = (
            b"SELECT count(*), count(DISTINCT e.task_id) FROM regente.events e "
            b"JOIN regente.mission_runs r ON r.mission_id = e.task_id WHERE e.event = 'task_queued'"
        )
        rows = await (await connection.execute(query)).fetchall()
    assert rows == [(count, count)]


async def test_an_action_that_cannot_continue_is_marked_as_failed(app: Regente) -> None:
    """O18."""

    async def breaks(_: Regente, __: LimitedDatabase, ___: Sequence[int], ____: str) -> int:
        raise ValueError("no more")

    actions = BulkActions(added={"test.break": BulkAction(breaks, ("draft",))})
    runner = BulkRunner(app, LimitedDatabase(app.database), ApiConfig(), actions)
    action = await runner.submit("test.break", [1], by="ana")
    assert (action["status"], action["error"], action["done"]) == (
        "failed",
        "ValueError: no more",
        0,
    )
