"""Tasks in the transactions of other libraries: stored with their rows, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import django
import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel
from sqlalchemy import BigInteger, cast, create_engine, func, make_url, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from regente import Regente
from regente.engine.pipeline import Registry
from regente.engine.registration import register_pipelines
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, running, status_is, task_row, until


class Order(BaseModel):
    product: str


class RolledBack(Exception):
    """The program fails after it has enqueued."""


# Inserts an order, enqueues its task, and fails if it is told to; returns the task's id.
Write = Callable[[str, str, dict[str, Any], bool], Awaitable[int]]

INSERT = "INSERT INTO public.orders VALUES "


async def by_psycopg(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    def work() -> int:
        with psycopg.connect(url) as connection:
            connection.execute(INSERT + "(%s)", [key])
            row = connection.execute(
                "SELECT regente.enqueue('orders', %s, key => %s, on_conflict => 'error')",
                [json.dumps(args), key],
            ).fetchone()
            if fail:
                raise RolledBack
            assert row is not None
            return int(row[0])

    return await asyncio.to_thread(work)


async def by_asyncpg(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    connection = await asyncpg.connect(**asyncpg_parameters(url))
    try:
        async with connection.transaction():
            await connection.execute(INSERT + "($1)", key)
            task_id = await connection.fetchval(
                "SELECT regente.enqueue('orders', $1, key => $2, on_conflict => 'error')",
                json.dumps(args),
                key,
            )
            if fail:
                raise RolledBack
        return int(task_id)
    finally:
        await connection.close()


STATEMENT = text(
    "SELECT regente.enqueue('orders', CAST(:args AS jsonb), key => :key, on_conflict => 'error')"
)


async def by_sqlalchemy(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    def work() -> int:
        engine = create_engine(sqlalchemy_url(url, "psycopg"), poolclass=NullPool)
        with Session(engine) as session, session.begin():
            session.execute(text(INSERT + "(:key)"), {"key": key})
            task_id = session.scalar(STATEMENT, {"args": json.dumps(args), "key": key})
            if fail:
                raise RolledBack
        return int(task_id or 0)

    return await asyncio.to_thread(work)


async def by_sqlalchemy_as_a_function(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    """With parameters by position, as its expression language has them."""

    def work() -> int:
        engine = create_engine(sqlalchemy_url(url, "psycopg"), poolclass=NullPool)
        enqueue = func.regente.enqueue(
            "orders",
            cast(args, JSONB),
            key,
            0,
            None,
            None,
            None,
            False,
            None,
            "ever",
            "error",
            type_=BigInteger,
        )
        with Session(engine) as session, session.begin():
            session.execute(text(INSERT + "(:key)"), {"key": key})
            task_id = session.scalar(select(enqueue))
            if fail:
                raise RolledBack
        return int(task_id or 0)

    return await asyncio.to_thread(work)


async def by_async_sqlalchemy(
    driver: str, url: str, key: str, args: dict[str, Any], fail: bool
) -> int:
    engine = create_async_engine(sqlalchemy_url(url, driver), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text(INSERT + "(:key)"), {"key": key})
        task_id = await session.scalar(STATEMENT, {"args": json.dumps(args), "key": key})
        if fail:
            raise RolledBack
    return int(task_id or 0)


async def by_sqlalchemy_on_psycopg(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    return await by_async_sqlalchemy("psycopg_async", url, key, args, fail)


async def by_sqlalchemy_on_asyncpg(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    return await by_async_sqlalchemy("asyncpg", url, key, args, fail)


async def by_django(url: str, key: str, args: dict[str, Any], fail: bool) -> int:
    def work() -> int:
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute(INSERT + "(%s)", [key])
            cursor.execute(
                "SELECT regente.enqueue('orders', %s, key => %s, on_conflict => 'error')",
                [json.dumps(args), key],
            )
            (task_id,) = cursor.fetchone()
            if fail:
                raise RolledBack
        return int(task_id)

    def closing() -> int:
        try:
            return work()
        finally:
            connections["default"].close()

    return await asyncio.to_thread(closing)


def parts_of(url: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(url).items()}


def asyncpg_parameters(url: str) -> dict[str, Any]:
    parts = parts_of(url)
    return {
        "user": parts["user"],
        "password": parts.get("password"),
        "host": parts["host"],
        "port": int(parts.get("port", 5432)),
        "database": parts["dbname"],
    }


def sqlalchemy_url(url: str, driver: str) -> Any:
    given = asyncpg_parameters(url)
    # The host may be the folder of a socket, which only the query of an address can name.
    query = {"host": given["host"], "port": str(given["port"])}
    return make_url(f"postgresql+{driver}://").set(
        username=given["user"],
        password=given["password"],
        database=given["database"],
        query=query,
    )


@pytest.fixture(scope="module")
def configured(shared_database: str) -> None:
    given = asyncpg_parameters(shared_database)
    default = {name.upper(): given[name] or "" for name in ("user", "password", "host", "port")}
    default |= {"ENGINE": "django.db.backends.postgresql", "NAME": given["database"]}
    django_settings.configure(DATABASES={"default": default})
    django.setup()


@pytest.fixture(
    params=[
        by_psycopg,
        by_asyncpg,
        by_sqlalchemy,
        by_sqlalchemy_as_a_function,
        by_sqlalchemy_on_psycopg,
        by_sqlalchemy_on_asyncpg,
        by_django,
    ],
    ids=lambda write: write.__name__,
)
def write(request: pytest.FixtureRequest, configured: None) -> Write:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
async def served(app: Regente, registry: Registry, sql: Sql) -> None:
    @registry.pipeline("orders", args=Order)
    async def orders(task: Task[Order]) -> str:
        return task.args.product

    await register_pipelines(app.database.fetch, registry.select(None))
    sql.execute("CREATE TABLE public.orders (key text)")


def sqlstate_of(error: BaseException | None) -> str | None:
    """Of the driver's error, which libraries keep as the cause of theirs."""
    while error is not None:
        for one in (error, getattr(error, "orig", None)):
            found = getattr(one, "sqlstate", None)
            if found:
                return str(found)
        error = error.__cause__
    return None


async def test_a_task_starts_when_the_transaction_has_committed(
    app: Regente, sql: Sql, database_url: str, write: Write, no_polls: None
) -> None:
    """I1: by its hint; no runner polls here."""
    async with running(app):
        await until(lambda: column(sql, "SELECT count(*) FROM regente.runners") == [1])
        task_id = await write(database_url, "a", {"product": "chair"}, False)
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["result"] == "chair"
    assert column(sql, "SELECT key FROM public.orders") == ["a"]


async def test_a_task_is_gone_with_its_transaction(
    sql: Sql, database_url: str, write: Write
) -> None:
    with pytest.raises(RolledBack):
        await write(database_url, "a", {"product": "chair"}, True)
    for table in ("public.orders", "regente.tasks", "regente.events"):
        assert column(sql, f"SELECT count(*) FROM {table}") == [0]


async def test_what_is_refused_rolls_the_transaction_back(
    sql: Sql, database_url: str, write: Write
) -> None:
    """The error has its SQLSTATE and names the field, in every library."""
    with pytest.raises(Exception, match="product: missing") as refused:
        await write(database_url, "a", {"other": 1}, False)
    assert sqlstate_of(refused.value) == "RG002"
    first = await write(database_url, "b", {"product": "chair"}, False)
    with pytest.raises(Exception, match=f"task {first} of orders has the key b") as taken:
        await write(database_url, "b", {"product": "chair"}, False)
    assert sqlstate_of(taken.value) == "RG004"
    assert column(sql, "SELECT key FROM public.orders") == ["b"]
