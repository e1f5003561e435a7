"""Tasks that exceed their pipeline's `expire_after` end, in any state."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from regente import Regente, Task, Throttled, hours
from regente.engine.pipeline import Registry
from regente.engine.watchdog.expiry import ExpirySweep
from tests.support.eventually import eventually_async

LATER = (
    "CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE sql STABLE AS "
    "'SELECT now() + interval ''{}'''"
)


async def travel(app: Regente, distance: str) -> None:
    async with app.database.transaction() as connection:
        await connection.execute(LATER.format(distance).encode())


@pytest.fixture
def patient(registry: Registry) -> Registry:
    @registry.pipeline("patient", expire_after=hours(24))
    async def patient(task: Task) -> None:
        raise Throttled("not yet", retry_after=3600 * 48)

    @registry.pipeline("eternal")
    async def eternal(task: Task) -> None:
        raise Throttled("not yet", retry_after=3600 * 48)

    return registry


async def test_a_task_not_done_within_its_time_becomes_a_dead_letter(
    app: Regente, patient: Registry
) -> None:
    """Q4: tasks in processing for more than 24 h end; other pipelines are unaffected."""
    late, never = await app.enqueue("patient", {}), await app.enqueue("eternal", {})
    fresh = await app.enqueue("patient", {}, run_at=datetime.now(UTC) + timedelta(days=3))
    await _first_attempts(app)
    expiry = ExpirySweep(app.database, 1.0)
    assert await expiry.run_once() == 0
    await travel(app, "25 hours")
    assert await expiry.run_once() == 1
    ended = await app.get(late)
    assert (ended.status, ended.error_code, ended.runner_id) == ("failed", "EXPIRED", None)
    assert [failure["code"] for failure in await app.failures(late)] == ["EXPIRED", "THROTTLED"]
    assert {(await app.get(task_id)).status for task_id in (never, fresh)} == {"queued"}


async def test_a_running_task_that_expired_can_write_nothing_more(
    app: Regente, registry: Registry
) -> None:
    """I3: its attempt is cancelled, and fenced like any other that lost its task."""
    statuses: list[str] = []

    @registry.pipeline("slow", expire_after=hours(24))
    async def slow(task: Task) -> None:
        await travel(app, "25 hours")
        try:
            await ExpirySweep(app.database, 1.0).run_once()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            statuses.append((await app.get(task.id)).status)
            await task.step("TOO_LATE", lambda: 1)
            statuses.append("wrote")

    task_id = await app.enqueue("slow", {})
    await app.run(until_idle=True)
    assert statuses == ["failed"]
    assert await app.steps(task_id) == []


async def _first_attempts(app: Regente) -> None:
    runner = asyncio.create_task(app.run())

    async def both_throttled() -> bool:
        return sum(task.attempt == 1 and task.status == "queued" for task in await app.tasks()) == 2

    await eventually_async(both_throttled)
    app.stop_running()
    await runner
