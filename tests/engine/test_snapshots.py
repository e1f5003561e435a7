"""Snapshots of a pipeline are kept with the failure of the attempt that took them."""

from __future__ import annotations

import pytest

from regente import Fatal, NotFound, Regente, Retry, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import MAX_SNAPSHOT_BYTES, MAX_SNAPSHOTS, Task
from tests.engine.helpers import Sql, one, task_row


async def test_snapshots_belong_to_the_attempt_that_failed(
    app: Regente, registry: Registry
) -> None:
    """Z4: HTML and bytes unchanged, by name; a later one of the same name replaces the first."""

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task) -> None:
        task.snapshot("page", "old")
        task.snapshot("page", f"<html>{task.attempt} ü \ud800 \x00</html>")
        task.snapshot("shot", bytes(range(256)), "image/png")
        raise Transient("no")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    newest, oldest = await app.failures(task_id)
    assert [snapshot["name"] for snapshot in newest["snapshots"]] == ["page", "shot"]
    assert await app.snapshot(oldest["id"], "page") == (
        "text/html",
        False,
        "<html>1 ü \\ud800 \x00</html>".encode(),
    )
    assert await app.snapshot(newest["id"], "shot") == ("image/png", False, bytes(range(256)))
    with pytest.raises(NotFound, match="has no snapshot 'nope'"):
        await app.snapshot(newest["id"], "nope")


async def test_a_success_keeps_none(app: Regente, registry: Registry, sql: Sql) -> None:
    """I10: only failures need them."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        task.snapshot("page", "<html>")

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert one(sql, "SELECT count(*) FROM regente.snapshots")["count"] == 0


async def test_large_or_numerous_snapshots_are_cut(app: Regente, registry: Registry) -> None:
    """I10: the newest ones, each up to the limit, and cut ones are marked."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        for number in range(MAX_SNAPSHOTS + 3):
            task.snapshot(f"s{number:02}", b"x")
        task.snapshot("large", b"y" * (MAX_SNAPSHOT_BYTES + 1))
        task.snapshot("full", b"z" * MAX_SNAPSHOT_BYTES)
        raise Fatal("no")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    (failure,) = await app.failures(task_id)
    kept = {snapshot["name"]: snapshot for snapshot in failure["snapshots"]}
    assert len(kept) == MAX_SNAPSHOTS
    assert "s00" not in kept
    assert (kept["large"]["bytes"], kept["large"]["truncated"]) == (MAX_SNAPSHOT_BYTES, True)
    assert (kept["full"]["bytes"], kept["full"]["truncated"]) == (MAX_SNAPSHOT_BYTES, False)


async def test_messages_of_any_kind_are_stored(app: Regente, registry: Registry, sql: Sql) -> None:
    """F15, W4: NUL and surrogates replaced, length limited, details kept or explained."""

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        raise Fatal("a\x00b\ud800" + "c" * 10_000, details={"object": object(), "text": "\x00"})

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    failure = one(sql, "SELECT code, message, details FROM regente.failures")
    assert failure["code"] == "FATAL"
    assert failure["message"].startswith("a\\0b\\ud800ccc")
    assert len(failure["message"]) == 4_000
    assert "not_storable" in failure["details"]
    assert task_row(sql, task_id)["error_message"] == failure["message"]


async def test_the_same_error_has_the_same_fingerprint(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """W5: failures are grouped by their cause, not by their message."""

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task[dict[str, int]]) -> None:
        if task.args["n"] == 2:
            raise Fatal("other", code="OTHER")
        raise Fatal(f"page {task.args['n']}", code="PAGE")

    await app.enqueue_many("p", [{"n": n} for n in range(3)])
    await app.run(until_idle=True)
    groups = sql.execute(
        "SELECT count(*) FROM regente.failures GROUP BY fingerprint ORDER BY 1"
    ).fetchall()
    assert [group["count"] for group in groups] == [1, 2]
