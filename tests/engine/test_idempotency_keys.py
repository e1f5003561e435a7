"""Idempotency keys: one for each task and step, in every installation and every restored copy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from regente import Regente, Retry, Task, Transient
from regente.components import every_component
from regente.engine.migrations import ENGINE, Migrator, read_migrations
from regente.engine.pipeline import Registry

FAST = Retry(max_attempts=3, first=0.01, jitter=False)
Keys = dict[int, set[str]]


@pytest.fixture
def database_url(fresh_database: str) -> str:
    """A database of the test's own: its installation is new."""
    return fresh_database


@contextlib.contextmanager
def another(server_url: str, template: str) -> Iterator[str]:
    name = "regente_another"
    with psycopg.connect(server_url, autocommit=True) as connection:
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(made.format(sql.Identifier(name), sql.Identifier(template)))
        yield make_conninfo(server_url, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.asynccontextmanager
async def opened(url: str, keys: Keys) -> AsyncIterator[Regente]:
    """An app whose tasks fail once and note the key of each attempt."""
    registry = Registry()

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        keys.setdefault(task.id, set()).add(task.idempotency_key("PAY"))
        if task.attempt == 1:
            raise Transient("once more")

    async with Regente(url, pipelines=registry) as app:
        yield app


async def keys_of(url: str, enqueue: int) -> Keys:
    """The keys of what is in the queue there and of so many new tasks."""
    keys: Keys = {}
    async with opened(url, keys) as app:
        await app.enqueue_many("p", [{}] * enqueue)
        await app.run(until_idle=True)
    return keys


def only(keys: Keys) -> dict[int, str]:
    """The one key that all attempts at a task have had."""
    assert all(len(found) == 1 for found in keys.values()), keys
    return {task_id: next(iter(found)) for task_id, found in keys.items()}


async def test_two_installations_share_no_key(
    database_url: str, server_url: str, template: str
) -> None:
    """I2: a provider that honours keys must not give one's answer to the other."""
    with another(server_url, template) as other_url:
        one, other = only(await keys_of(database_url, 3)), only(await keys_of(other_url, 3))
    assert one.keys() == other.keys() == {1, 2, 3}
    assert not {*one.values()} & {*other.values()}


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_each_item_of_a_loop_has_a_key_of_its_own(
    app: Regente, registry: Registry, concurrency: int
) -> None:
    """I2: the same name in the function of an item is that item's, at every attempt."""
    keys: dict[str, set[str]] = {}
    orders = ["chair", "notebook", "desk"]

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async def note(order: str) -> None:
            keys.setdefault(order, set()).add(task.idempotency_key("PAY"))

        async def pay(order: str) -> None:
            await note(order)
            await task.step("NOTE", note, order)
            if task.attempt == 1 and order == "desk":
                raise Transient("once more")

        await note("all")
        await task.each("ORDERS", orders, pay, concurrency=concurrency)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert {order: len(found) for order, found in keys.items()} == dict.fromkeys(
        ["all", *orders], 1
    )
    assert len(set.union(*keys.values())) == 4


async def give_out_ids_from(url: str, last_id: int) -> None:
    async with opened(url, {}) as app, app.database.connection() as connection:
        sequence = "pg_get_serial_sequence('regente.tasks', 'id')"
        await connection.execute(f"SELECT setval({sequence}, %s)", [last_id])


async def test_a_restored_copy_shares_only_the_keys_of_the_tasks_in_it(
    database_url: str, server_url: str
) -> None:
    """I2: tasks that both have are the same work; what gets the same id later is not.

    A copy gives out other ids by itself; here it is made to give out the same."""
    keys: Keys = {}
    async with opened(database_url, keys) as app:
        before = await app.enqueue("p", {})
    name = conninfo_to_dict(database_url)["dbname"]
    assert isinstance(name, str)
    with another(server_url, name) as restored_url:
        await give_out_ids_from(restored_url, before)
        one, other = only(await keys_of(database_url, 1)), only(await keys_of(restored_url, 1))
    assert one.keys() == other.keys() == {before, before + 1}
    assert one[before] == other[before]
    assert one[before + 1] != other[before + 1]


async def test_a_task_from_before_the_upgrade_keeps_its_key(database_url: str) -> None:
    """I2, F17: an attempt of older code may have sent it."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as own:
        await Migrator(own, every_component()).down()  # the parts of others build on the engine's
        migrator = Migrator(own, [ENGINE])
        await migrator.up()
        names = {one.name: one.version for one in read_migrations(ENGINE)}
        await migrator.down(names["installation"] - 1)
        await own.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
        await migrator.up()
    keys = only(await keys_of(database_url, 1))
    assert keys[1] == "regente-1-PAY"
    assert keys[2] != "regente-2-PAY"


async def test_runners_that_start_at_once_agree_on_the_installation(database_url: str) -> None:
    """I2: also when its row is missing."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as own:
        await own.execute("DELETE FROM regente.installation")
    keys: Keys = {}
    async with opened(database_url, keys) as one, opened(database_url, keys) as other:
        await one.enqueue_many("p", [{}] * 50)
        await asyncio.gather(one.run(until_idle=True), other.run(until_idle=True))
    found = only(keys)
    assert len(found) == 50
    assert len({key.removeprefix("regente-")[:36] for key in found.values()}) == 1
