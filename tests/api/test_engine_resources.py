"""Tasks, dead letters, batches, runners and pipelines over HTTP."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from regente import Fatal, Regente, Retry, Skip, Task, UnknownOutcome
from regente.api.queries import QUERIES, LimitedDatabase
from regente.engine.pipeline import Registry
from tests.api.conftest import Served, body_of, events_of, with_config
from tests.support.eventually import eventually_async
from tests.support.running import runner_in


@pytest.fixture
def registry() -> Registry:
    found = Registry()

    @found.pipeline("shop", version="7.1")
    async def shop(task: Task[dict[str, Any]]) -> dict[str, Any]:
        if task.args.get("fail"):
            task.snapshot("page.html", "<script>alert(1)</script>")
            raise Fatal("the layout changed", code=task.args["fail"])
        if task.args.get("skip"):
            raise Skip("nothing to do")

        async def priced() -> dict[str, Any]:
            return {"price": 3, "session_token": "s3cr3t"}

        return await task.step("price", priced)

    return found


async def run_all(app: Regente) -> None:
    await app.run(until_idle=True)


async def test_a_task_is_shown_with_its_steps_and_events_but_not_its_secrets(
    api: Served, app: Regente
) -> None:
    """O18: secrets of tasks are redacted."""
    one = await app.enqueue("shop", {"product": "chair", "api_key": "canary-key"}, key="chair")
    await run_all(app)
    task = body_of(await api.viewer.get(f"/api/tasks/{one}"))
    assert (task["status"], task["args"], task["result"]["price"]) == (
        "completed",
        {"product": "chair", "api_key": "•••"},
        3,
    )
    [attempt] = body_of(await api.viewer.get(f"/api/tasks/{one}/attempts"))
    assert (attempt["attempt"], attempt["version"]) == (1, "7.1")
    [pipeline] = body_of(await api.viewer.get("/api/pipelines"))
    assert pipeline["versions"] == [], "no runner lives"
    runners = body_of(await api.viewer.get("/api/runners", params={"everyone": "true"}))
    assert runners[0]["versions"] == {"shop": "7.1"}
    steps = body_of(await api.viewer.get(f"/api/tasks/{one}/steps"))
    assert steps[0]["name"] == "price"
    events = body_of(await api.viewer.get(f"/api/tasks/{one}/events"))
    assert events[0]["event"] == "task_queued"
    listed = await api.viewer.get(
        "/api/tasks", params={"pipeline": "shop", "statuses": "completed"}
    )
    assert [item["id"] for item in (body_of(listed))["items"]] == [one]
    assert (body_of(await api.viewer.get(f"/api/tasks/{one}/why")))["code"] == "COMPLETED"
    assert "canary-key" not in listed.text
    for path in ("", "/steps", "/events", "/why"):
        assert (await api.viewer.get(f"/api/tasks/999{path}")).status_code == 404


async def test_a_task_is_canceled_and_retried(api: Served, app: Regente) -> None:
    """O12: cancel and retry."""
    one = await app.enqueue("shop", {})
    assert (body_of(await api.operator.post(f"/api/tasks/{one}/cancel")))["status"] == "canceled"
    assert (body_of(await api.operator.post(f"/api/tasks/{one}/retry")))["status"] == "queued"
    assert (await api.operator.post(f"/api/tasks/{one}/retry")).status_code == 409
    bulk = body_of(
        await api.operator.post("/api/tasks/cancel", json={"filter": {"pipeline": "shop"}})
    )
    assert bulk["changed"] == 1
    assert (body_of(await api.operator.post("/api/tasks/retry", json={"ids": [one]})))[
        "changed"
    ] == 1


async def failed(app: Regente) -> list[int]:
    batch = await app.open_batch("round-1", details={"route": "/classificador/"})
    args = [{"fail": "LAYOUT"}] * 3 + [{"fail": "HTTP_404"}] * 2 + [{}] * 2
    ids = await app.enqueue_many("shop", args, keys=[f"doc-{n}" for n in range(7)], batch=batch)
    await run_all(app)
    return ids


async def test_dead_letters_are_grouped_shown_with_their_snapshot_and_retried_by_group(
    api: Served, app: Regente
) -> None:
    """Z4, Z5: dead letters."""
    ids = await failed(app)
    groups = body_of(await api.viewer.get("/api/failures/groups"))
    assert [(group["code"], group["tasks"], group["class"]) for group in groups] == [
        ("LAYOUT", 3, "fatal"),
        ("HTTP_404", 2, "fatal"),
    ]
    page = body_of(await api.viewer.get("/api/failures", params={"code": "LAYOUT", "limit": 2}))
    assert [one["task_id"] for one in page["items"]] == [ids[2], ids[1]]
    assert page["next"] == str(ids[1])
    shown = body_of(await api.viewer.get(f"/api/failures/{ids[0]}"))
    (attempt,) = shown["attempts"]
    assert attempt["snapshots"][0]["name"] == "page.html"
    snapshot = await api.viewer.get(f"/api/failures/attempts/{attempt['id']}/snapshots/page.html")
    assert snapshot.text == "<script>alert(1)</script>"
    assert snapshot.headers["content-type"] == "text/plain; charset=utf-8"
    assert snapshot.headers["content-security-policy"].startswith("sandbox")
    assert snapshot.headers["content-disposition"] == "attachment"
    group = {"code": "LAYOUT", "fingerprint": groups[0]["fingerprint"]}
    first = body_of(
        await api.operator.post("/api/failures/retry", json={"filter": group, "limit": 2})
    )
    assert (first["total"], first["changed"]) == (2, 2)
    assert [(await app.get(one)).status for one in ids[:3]] == ["queued", "queued", "failed"]


async def test_dead_letters_are_discarded_only_with_a_reason(api: Served, app: Regente) -> None:
    """Z4, O18: discard."""
    ids = await failed(app)
    assert (
        await api.operator.post("/api/failures/discard", json={"ids": ids[:1]})
    ).status_code == 422
    body = {"ids": ids, "reason": "these matches do not exist"}
    assert (body_of(await api.operator.post("/api/failures/discard", json=body)))["changed"] == 5
    assert (await app.get(ids[0])).status == "canceled"
    (noted,) = await events_of(app, "operator_action")
    assert noted["target"]["reason"] == "these matches do not exist"


async def test_a_batch_shows_its_counts_and_reprocesses_only_its_errors(
    api: Served, app: Regente
) -> None:
    """W5, Z5: batches."""
    await failed(app)
    page = body_of(await api.viewer.get("/api/batches", params={"statuses": "completed"}))
    (batch,) = page["items"]
    assert (batch["total"], batch["completed"], batch["failed"]) == (7, 2, 5)
    shown = body_of(await api.viewer.get(f"/api/batches/{batch['id']}"))
    assert batch["pipeline"] == shown["pipeline"] == "shop"
    assert shown["errors"] == [{"code": "LAYOUT", "tasks": 3}, {"code": "HTTP_404", "tasks": 2}]
    assert (shown["route"], shown["last_key"] is not None) == ("/classificador/", True)
    resumed = body_of(await api.operator.post(f"/api/batches/{batch['id']}/resume"))
    assert resumed["resumed"] is False
    redone = body_of(
        await api.operator.post(
            f"/api/batches/{batch['id']}/reprocess", json={"codes": ["HTTP_404"]}
        )
    )
    assert redone["count"] == 2
    rest = body_of(await api.operator.post(f"/api/batches/{batch['id']}/cancel"))
    assert rest == {"canceled": 2, "canceling": 0}
    for method, path in (
        ("GET", ""),
        ("POST", "/resume"),
        ("POST", "/reprocess"),
        ("POST", "/cancel"),
    ):
        assert (await api.operator.request(method, f"/api/batches/999{path}")).status_code == 404


async def _runners(api: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(await api.viewer.get("/api/runners"))
    return found


async def _is_completed(app: Regente, task_id: int) -> bool:
    return (await app.get(task_id)).status == "completed"


async def test_a_drained_runner_gets_no_more_work_until_it_is_resumed(
    api: Served, app: Regente
) -> None:
    """S6: runners."""
    async with runner_in(app):
        runner = (await eventually_async(lambda: _runners(api)))[0]
        assert (runner["status"], runner["alive"]) == ("running", True)
        drained = body_of(await api.operator.post(f"/api/runners/{runner['id']}/drain"))
        assert drained["status"] == "draining"
        assert (await api.operator.post(f"/api/runners/{runner['id']}/drain")).status_code == 409
        one = await app.enqueue("shop", {})
        assert (body_of(await api.viewer.get(f"/api/tasks/{one}/why")))["code"] == "NO_RUNNER"
        assert (body_of(await api.operator.post(f"/api/runners/{runner['id']}/resume")))[
            "status"
        ] == "running"
        await eventually_async(lambda: _is_completed(app, one))
    assert (body_of(await api.viewer.get(f"/api/runners/{runner['id']}")))["status"] == "stopped"
    assert (await api.viewer.get("/api/runners/999")).status_code == 404


async def test_pipelines_are_paused_and_resumed(api: Served, app: Regente) -> None:
    """O18: pipelines."""
    await app.enqueue("shop", {})
    await run_all(app)
    assert (body_of(await api.operator.post("/api/pipelines/shop/pause")))["paused"] is True
    assert (body_of(await api.operator.post("/api/pipelines/shop/resume")))["paused"] is False
    assert (await api.operator.post("/api/pipelines/nothing/pause")).status_code == 404
    assert [one["name"] for one in body_of(await api.viewer.get("/api/pipelines"))] == ["shop"]


@with_config(statement_seconds=0.3)
@pytest.mark.parametrize(
    "path",
    [
        "/api/batches",
        "/api/batches/{batch}",
        "/api/runners",
        "/api/runners/1",
        "/api/tasks",
        "/api/tasks/{task}",
        "/api/tasks/{task}/why",
        "/api/failures/{task}",
        "/api/pipelines",
    ],
)
async def test_a_question_that_takes_too_long_is_ended(
    api: Served, app: Regente, database_url: str, path: str
) -> None:
    """Every list and lookup of the engine's tables has the API's statement limit, so that a slow
    one cannot keep its connection; here they wait for locks of another session."""
    batch = await app.open_batch("b")
    task = await app.enqueue("shop", {}, batch=batch)
    with psycopg.connect(database_url) as other:
        other.execute(
            "LOCK TABLE regente.tasks, regente.batches, regente.runners, regente.pipelines"
            " IN ACCESS EXCLUSIVE MODE"
        )
        answer = await api.viewer.get(path.format(batch=batch, task=task))
    assert body_of(answer, 503)["code"] == "QUERY_TOO_SLOW"


async def test_a_person_decides_on_a_call_of_unknown_outcome(api: Served, app: Regente) -> None:
    """I2, O18: listed for viewers, decided by operators, with the name in the event."""
    registry = app.registry

    @registry.pipeline("paying", retry=Retry(max_attempts=1))
    async def paying(task: Task) -> int:
        def lost() -> int:
            raise UnknownOutcome("no answer")

        return await task.step("PAY", lost, on_unknown="hold")

    task_id = await app.enqueue("paying", {})
    await app.run(["paying"], until_idle=True)
    (asked,) = (await api.viewer.get("/api/tasks/decisions")).json()
    assert (asked["task_id"], asked["step"], asked["item"]) == (task_id, "PAY", None)
    path = f"/api/tasks/{task_id}/resolve"
    for wrong in ({"step": "PAY"}, {"step": "PAY", "retry": True, "result": 1}, {"retry": True}):
        assert (await api.operator.post(path, json=wrong)).status_code == 422, wrong
    given = {"step": "PAY", "result": 7}
    assert (await api.viewer.post(path, json=given)).status_code == 403
    assert (await api.operator.post(path, json=given)).status_code == 200
    assert (await api.operator.post(path, json=given)).status_code == 409
    await app.run(["paying"], until_idle=True)
    assert (await app.get(task_id)).result == 7
    assert (await api.viewer.get("/api/tasks/decisions")).json() == []


async def test_a_signal_is_sent_by_operators_and_received_once(api: Served, app: Regente) -> None:
    """I2, O18: with its key it may be sent again; the name is in the event."""

    @app.registry.pipeline("approving")
    async def approving(task: Task) -> Any:
        return await task.wait_for("approval")

    task_id = await app.enqueue("approving", {})
    path = f"/api/tasks/{task_id}/signals"
    given = {"name": "approval", "payload": {"approved": True}, "key": "form 7"}
    assert (await api.viewer.post(path, json=given)).status_code == 403
    first = await api.operator.post(path, json=given)
    assert first.status_code == 201
    assert (await api.operator.post(path, json=given)).json() == first.json()
    assert (await api.operator.post(path, json={"payload": 1})).status_code == 422
    unknown = await api.operator.post("/api/tasks/4711/signals", json=given)
    assert body_of(unknown, 404)["code"] == "NOT_FOUND"
    await app.run(["approving"], until_idle=True)
    assert (await app.get(task_id)).result == {"approved": True}
    late = await api.operator.post(path, json={"name": "approval"})
    assert body_of(late, 409)["code"] == "ILLEGAL_TRANSITION"
    events = (await api.viewer.get(f"/api/tasks/{task_id}/events")).json()
    told = [one["details"]["by"] for one in events if one["event"] == "task_signaled"]
    assert len(told) == 1


async def test_a_waiting_task_is_changed_by_operators(api: Served, app: Regente) -> None:
    """O18: the audit event has what was and what is; of arguments only that they changed."""

    @app.registry.pipeline("changing")
    async def changing(task: Task) -> Any:
        return task.args["n"]

    task_id = await app.enqueue("changing", {"n": 1, "password": "hidden"}, priority=2)
    path = f"/api/tasks/{task_id}/change"
    given = {"priority": 5, "run_at": "2040-01-01T00:00:00Z", "args": {"n": 2, "password": "new"}}
    assert (await api.viewer.post(path, json=given)).status_code == 403
    changed = body_of(await api.operator.post(path, json=given))
    assert (changed["priority"], changed["run_at"][:10]) == (5, "2040-01-01")
    assert changed["args"]["n"] == 2
    assert "new" not in str(changed["args"])
    for wrong in ({"priority": None}, {"priority": 40_000}, {"run_at": "2040-01-01"}, {"n": 1}, {}):
        assert (await api.operator.post(path, json=wrong)).status_code == 422, wrong
    events = (await api.viewer.get(f"/api/tasks/{task_id}/events")).json()
    (told,) = [one["details"] for one in events if one["event"] == "task_changed"]
    assert told["by"]
    assert told["changes"]["priority"] == {"from": 2, "to": 5}
    assert told["changes"]["args"] == ["n", "password"]
    (audited,) = [
        one["details"]
        for one in (await api.viewer.get("/api/events?types=operator_action")).json()["items"]
        if one["details"]["action"] == "tasks.change"
    ]
    assert (audited["before"]["priority"], audited["after"]["priority"]) == (2, 5)
    assert "new" not in str(audited)
    assert (await api.operator.post(path, json={"run_at": None})).status_code == 200
    await app.run(["changing"], until_idle=True)
    late = await api.operator.post(path, json={"priority": 1})
    assert body_of(late, 409)["code"] == "ILLEGAL_TRANSITION"
    unknown = await api.operator.post("/api/tasks/4711/change", json={"priority": 1})
    assert body_of(unknown, 404)["code"] == "NOT_FOUND"


async def test_waiting_tasks_are_changed_by_filter_after_a_preview(
    api: Served, app: Regente
) -> None:
    """O18, O19: as one action, with an event of each task; what does not wait stays."""
    ids = await app.enqueue_many("shop", [{}, {}, {}], priority=2)
    other = await app.enqueue("shop", {}, draft=True)
    await app.cancel(ids[2])
    body = {
        "filter": {"pipeline": "shop", "statuses": ["queued", "canceled"]},
        "changes": {"priority": 7, "run_at": "2031-01-15T10:00:00+02:00", "lane": None},
    }
    dry = body_of(await api.operator.post("/api/tasks/change", json={**body, "dry_run": True}))
    assert (dry["kind"], dry["total"], dry["would_change"]) == ("tasks.change", 3, 2)
    assert {(await app.get(one)).priority for one in ids} == {2}
    action = body_of(await api.operator.post("/api/tasks/change", json=body))
    assert (action["status"], action["total"], action["changed"]) == ("completed", 3, 2)
    assert action["changes"] == body["changes"]
    assert body_of(await api.viewer.get(f"/api/actions/{action['id']}")) == action
    for one in ids[:2]:
        task = await app.get(one)
        assert (task.priority, task.run_at.isoformat()) == (7, "2031-01-15T08:00:00+00:00")
    assert [(await app.get(one)).priority for one in (ids[2], other)] == [2, 0]
    changed = await events_of(app, "task_changed")
    assert [one["by"] for one in changed] == ["the-operator"] * 2
    (note,) = await events_of(app, "operator_action")
    assert (note["action"], note["target"]["changes"]) == ("tasks.change_many", body["changes"])


@pytest.mark.parametrize(
    "changes",
    [
        None,
        {},
        {"priority": None},
        {"priority": 40_000},
        {"run_at": "2031-01-15"},
        {"args": {}},
        {"lane": "a" * 201},
        {"colour": "red"},
    ],
)
async def test_wrong_changes_of_many_tasks_are_refused_at_once(
    api: Served, app: Regente, changes: object
) -> None:
    """O19: before any action begins, also in a preview and if no task matches."""
    one = await app.enqueue("shop", {})
    body = {"ids": [one], "changes": changes}
    for wrong in (body, {**body, "dry_run": True}, {"filter": {"code": "X"}, "changes": changes}):
        answer = await api.operator.post("/api/tasks/change", json=wrong)
        assert answer.status_code == 422, answer.text
    assert body_of(await api.viewer.get("/api/actions"))["items"] == []
    assert await events_of(app, "task_changed") == []


@with_config(action_lease_seconds=0.4, chunk_items=2)
async def test_changes_of_many_tasks_go_on_in_another_process(api: Served, app: Regente) -> None:
    """O18: the changes are stored with the action that its process left behind."""
    ids = await app.enqueue_many("shop", [{}] * 5)
    database = LimitedDatabase(app.database)
    left = {"kind": "tasks.change", "by": "ana", "owner": "gone", "lease_seconds": 0}
    await QUERIES.fetch_one(
        database,
        "begin_action",
        **left,
        ids=ids,
        changes='{"priority": 3}',
        filter="null",
        reason=None,
        request_id=None,
    )

    async def changed() -> bool:
        return {(await app.get(one)).priority for one in ids} == {3}

    assert await eventually_async(changed)


async def test_tasks_that_wait_for_a_signal_are_listed(api: Served, app: Regente) -> None:
    """O18: with the signal, since when, and until when."""

    @app.registry.pipeline("approving")
    async def approving(task: Task) -> Any:
        return await task.wait_for("approval", timeout=3600)

    task_id = await app.enqueue("approving", {})
    async with runner_in(app):
        await eventually_async(lambda: app.waiting(task_id=task_id))
    (wait,) = (await api.viewer.get("/api/tasks/waiting?signal=approval")).json()
    assert (wait["task_id"], wait["signal"], wait["refused"]) == (task_id, "approval", None)
    assert wait["until"] is not None
    assert (await api.viewer.get("/api/tasks/waiting?signal=other")).json() == []
    why = (await api.viewer.get(f"/api/tasks/{task_id}/why")).json()
    assert why["code"] == "WAITING_FOR_SIGNAL"


async def test_the_tasks_that_a_task_has_spawned_are_listed(api: Served, app: Regente) -> None:
    """I9: as a batch that names its parent."""

    @app.registry.pipeline("leaf")
    async def leaf(task: Task) -> int:
        return 1

    @app.registry.pipeline("parent")
    async def parent(task: Task) -> int:
        return len(await task.spawn("LEAVES", "leaf", [{}, {}]))

    task_id = await app.enqueue("parent", {})
    async with runner_in(app):
        assert await app.wait(task_id, timeout=30) == 2
    (batch,) = (await api.viewer.get(f"/api/tasks/{task_id}/children")).json()
    assert (batch["parent_id"], batch["parent_step"], batch["completed"]) == (task_id, "LEAVES", 2)
    assert (await api.viewer.get("/api/tasks/4711/children")).status_code == 404
