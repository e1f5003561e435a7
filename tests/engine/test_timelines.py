"""A new timeline of the database: after a failover, a restore, a copy."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from regente import Regente, Task
from regente.engine.errors import UnknownPosition
from regente.engine.pipeline import Registry
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, column, many, one, running, status_is

ANOTHER_TIMELINE = "UPDATE regente.timelines SET name = name || ' until now'"
ANOTHER_CLUSTER = "UPDATE regente.timelines SET name = 'elsewhere/00000001/1/1'"
GAP = 1_000_000_000


async def test_ids_of_another_timeline_are_never_given_out_again(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """I3: the first connection leaves a gap, once, however many follow."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    before = await app.enqueue("p"), await app.open_batch("a")
    sql.execute(ANOTHER_TIMELINE)
    after = await open_app(), await open_app()
    assert await after[0].enqueue("p") == before[0] + GAP + 2
    assert await after[1].enqueue("p") == before[0] + GAP + 3
    assert await after[1].open_batch("b") > before[1] + GAP
    assert len(column(sql, "SELECT token FROM regente.timelines")) == 2


async def test_a_runner_is_never_given_the_id_of_another_one(
    open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """I3: also when the database is put back to a time before the first one was there."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    seen = set()
    for _ in range(2):
        app = await open_app()
        async with running(app):
            await status_is(app, await app.enqueue("p"), "completed")
        seen |= {*column(sql, "SELECT id FROM regente.runners")}
        sql.execute("DELETE FROM regente.runners")
    assert len(seen) == 2
    assert all(0 < number < 2**53 for number in seen)


async def test_a_position_of_another_timeline_is_refused(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """I11: what follows it may be missing; without a timeline it is right in the first one only."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    await app.enqueue("p")
    position = (await app.feed())[-1].position
    short = position.rpartition("-")[0]
    assert await app.feed(position) == await app.feed(short) == []
    sql.execute(ANOTHER_TIMELINE)
    other = await open_app()
    for lost in (position, short):
        with pytest.raises(UnknownPosition):
            await other.feed(lost)
    events = await other.feed("0-0")
    assert len(events) == 1
    assert await other.feed(events[-1].position) == []


async def test_a_restore_into_another_cluster_leaves_nothing_forgotten_and_nothing_ahead(
    open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """I11: the floor of retention and events of higher transactions than those of the new one."""
    app = await open_app()
    sql.execute("INSERT INTO regente.events (event, txid) VALUES ('old', '999999999999')")
    floor = Jsonb({"txid": "999999999998", "id": 1})
    sql.execute("INSERT INTO regente.settings (key, value) VALUES ('feed_floor', %s)", [floor])
    sql.execute(ANOTHER_CLUSTER)
    app = await open_app()
    assert one(sql, "SELECT value FROM regente.settings WHERE key = 'feed_floor'")["value"] == {
        "txid": "0",
        "id": 1,
    }
    sql.execute("INSERT INTO regente.events (event) VALUES ('new')")
    assert [event.event for event in await app.feed()] == ["old", "new"]
    assert many(sql, "SELECT FROM regente.events WHERE txid > '1000000000'") == []
