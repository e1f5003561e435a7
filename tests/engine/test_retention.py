"""Retention: old finished tasks are deleted with their rows; dead letters stay until discarded."""

from __future__ import annotations

from typing import Any

import pytest

from regente import Fatal, Regente, Retry
from regente.engine.errors import InvalidInput
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog import Watchdog
from regente.engine.watchdog.retention import RetentionResult, RetentionSweep
from regente.settings import Settings
from tests.engine.helpers import Clock, Sql, column, many, one

DAY = 86_400


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task[dict[str, str]]) -> None:
        await task.step("A", lambda: 1)
        if task.args.get("do") == "fail":
            task.snapshot("page", "<html>")
            raise Fatal("no")


async def forget(app: Regente, days: float = 30) -> RetentionResult:
    return await RetentionSweep(app.database, 3600, days * DAY).run_once()


async def test_old_finished_tasks_are_deleted_with_steps_and_events(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """I10: none a day earlier; waiting, running and dead tasks stay with their events."""
    await app.enqueue_many("p", [{}] * 5)
    (dead,) = await app.enqueue_many("p", [{"do": "fail"}])
    await app.run(until_idle=True)
    waiting = await app.enqueue("p", {})
    clock.advance(days=29)
    assert await forget(app) == RetentionResult(0, 0, 0)
    clock.advance(days=2)
    gone = await forget(app)
    assert (gone.tasks, gone.runners) == (5, 1)
    assert column(sql, "SELECT id FROM regente.tasks ORDER BY id") == [dead, waiting]
    assert column(sql, "SELECT DISTINCT task_id FROM regente.steps") == [dead]
    kept = set(column(sql, "SELECT DISTINCT task_id FROM regente.events WHERE task_id IS NOT NULL"))
    assert kept == {dead, waiting}
    assert one(sql, "SELECT count(*) FROM regente.snapshots")["count"] == 1


async def test_a_dead_letter_is_deleted_after_it_was_discarded(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """Z4: with its failures and snapshots."""
    dead = await app.enqueue("p", {"do": "fail"})
    await app.run(until_idle=True)
    clock.advance(days=90)
    assert (await forget(app)).tasks == 0
    await app.discard([dead])
    clock.advance(days=31)
    assert (await forget(app)).tasks == 1
    for table in ("tasks", "steps", "failures", "snapshots", "events"):
        assert many(sql, f"SELECT 1 FROM regente.{table}") == [], table


async def test_many_are_deleted_in_small_statements(app: Regente, sql: Sql, clock: Clock) -> None:
    """I10."""
    await app.enqueue_many("p", [{}] * 2_500)
    sql.execute("UPDATE regente.tasks SET status = 'canceled', finished_at = regente.clock()")
    clock.advance(days=31)
    gone = await forget(app)
    assert (gone.tasks, gone.events) == (2_500, 2_500)


async def test_a_batch_whose_tasks_were_deleted_still_adds_up(app: Regente, clock: Clock) -> None:
    """I9: total = the sum of the states; an open batch keeps its tasks."""
    await app.enqueue_many("p", [{}] * 3, batch="ended")
    await app.enqueue_many("p", [{}] * 3, batch="open")
    await app.run(until_idle=True)
    await app.enqueue("p", {}, batch="open", draft=True)
    clock.advance(days=31)
    await forget(app)
    assert all(batch.balanced for batch in await app.batches())
    assert [batch.total for batch in await app.batches() if batch.name == "open"] == [4]


async def test_a_changed_setting_is_obeyed_by_the_next_sweep(
    app: Regente, sql: Sql, clock: Clock, settings: Settings
) -> None:
    """O16: without a restart, shorter and longer; the stored value wins over the configured one."""
    watchdog = Watchdog(app.database, settings.runner_config().watchdog, lambda _: None)
    (sweep,) = [one for one in watchdog.sweeps if isinstance(one, RetentionSweep)]
    old = await app.enqueue_many("p", [{}] * 2)
    await app.run(until_idle=True)
    clock.advance(days=3)
    assert (await sweep.run_once()).tasks == 0
    await app.runtime_settings.set("retention_days", 2.5, by="operator")
    assert (await sweep.run_once()).tasks == len(old)
    await app.runtime_settings.set("retention_days", 60, by="operator")
    await app.enqueue("p", {})
    await app.run(until_idle=True)
    clock.advance(days=45)
    assert await sweep.run_once() == RetentionResult(0, 0, 0)
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 1


async def test_an_unreadable_setting_deletes_nothing(app: Regente, sql: Sql, clock: Clock) -> None:
    """I10: any value that was written by SQL."""
    await app.enqueue("p", {})
    await app.run(until_idle=True)
    clock.advance(days=90)
    for written in ("0", "-1", '"soon"', "null"):
        sql.execute(
            "INSERT INTO regente.settings (key, value) VALUES ('retention_days', %s::jsonb) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [written],
        )
        with pytest.raises(InvalidInput, match="retention_days is a number of days"):
            await forget(app)
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 1


async def test_what_is_kept_is_deleted_only_after_a_time_was_set(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """O17, O18: by the setting or the environment; other pipelines have the default."""

    @registry.pipeline("history", keep=True)
    async def run(task: Task[dict[str, str]]) -> None:
        return None

    kept = await app.enqueue_many("history", [{}] * 3)
    await app.enqueue_many("p", [{}] * 2)
    await app.run(until_idle=True)
    clock.advance(days=400)
    sweep = RetentionSweep(app.database, 3600, 30 * DAY)
    assert (await sweep.run_once()).tasks == 2
    assert (await sweep.run_once()).tasks == 0
    assert column(sql, "SELECT id FROM regente.tasks ORDER BY id") == kept
    logged = "SELECT DISTINCT task_id FROM regente.events WHERE task_id IS NOT NULL ORDER BY 1"
    assert column(sql, logged) == kept
    by_environment = RetentionSweep(app.database, 3600, 30 * DAY, was_set=True)
    await app.discard(kept[:1])
    sql.execute("UPDATE regente.tasks SET finished_at = regente.clock() WHERE id = %s", [kept[0]])
    assert (await by_environment.run_once()).tasks == 2
    await app.runtime_settings.set("retention_days", 1, by="ana")
    clock.advance(days=2)
    assert (await sweep.run_once()).tasks == 1
    assert column(sql, logged) == []


async def test_a_kept_history_is_not_read_by_every_sweep(
    app: Regente, registry: Registry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10: the next sweep begins after it, and finds what became old meanwhile."""

    @registry.pipeline("history", keep=True)
    async def run(task: Task[dict[str, str]]) -> None:
        return None

    await app.enqueue_many("history", [{}] * 4_000)
    await app.run(until_idle=True, concurrency=50)
    await app.enqueue_many("p", [{}] * 2)
    clock.advance(days=400)
    sweep = RetentionSweep(app.database, 3600, 30 * DAY)
    pages: list[str] = []
    fetch = app.database.fetch

    async def counted(name: str, *params: Any, **options: Any) -> Any:
        pages.append(name)
        return await fetch(name, *params, **options)

    monkeypatch.setattr(app.database, "fetch", counted)
    await sweep.run_once()  # deletes the runner's events among them
    await sweep.run_once()
    first = len(pages) / 2
    assert first > 10
    await app.run(until_idle=True)
    clock.advance(days=31)
    pages.clear()
    assert (await sweep.run_once()).tasks == 2
    assert len(pages) < first / 2


async def test_settings_know_whether_a_time_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """O16: in the environment, even to the default."""
    assert not Settings().runner_config().watchdog.keep_was_set
    monkeypatch.setenv("REGENTE_RETENTION_DAYS", "30")
    assert Settings().runner_config().watchdog.keep_was_set
