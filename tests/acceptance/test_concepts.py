"""Runs the examples of docs/concepts."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from regente import Regente
from tests.acceptance.conftest import CliProcess
from tests.support.eventually import eventually_async

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"

Start = Callable[..., CliProcess]


def program(page: str, folder: Path) -> Path:
    """The page's example, as the module that its first line names."""
    text = (CONCEPTS / page).read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    named = re.match(r'"""(\w+\.py):', code)
    assert named, "the example begins with its file's name"
    module = folder / named[1]
    module.write_text(code, encoding="utf-8")
    return module


async def ran(start: Start, *words: str) -> str:
    done = await asyncio.to_thread(start(*words).wait, 60)
    assert done.code == 0, done.err
    return done.out


async def result_of(database_url: str, task_id: int) -> Any:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:

        async def ended() -> tuple[Any, ...] | None:
            cursor = await connection.execute(
                "SELECT status::text, result FROM regente.tasks"
                " WHERE id = %s AND finished_at IS NOT NULL",
                (task_id,),
            )
            return await cursor.fetchone()

        row = await eventually_async(ended, within_seconds=60)
    assert row is not None
    assert row[0] == "completed"
    return row[1]


async def test_signals(start: Start, database_url: str, tmp_path: Path) -> None:
    module = str(program("signals.md", tmp_path))
    await ran(start, "enqueue", "refunds", '{"order": 7}', "--import", module)
    start("run", "--import", module)

    async def waits() -> bool:
        return "approval" in await ran(start, "tasks", "waiting")

    await eventually_async(waits, within_seconds=60)
    answer = '{"approved": true, "by": "ana"}'
    await ran(start, "tasks", "signal", "1", "approval", answer)
    assert await result_of(database_url, 1) == "approved by ana"


async def test_schedules(start: Start, database_url: str, tmp_path: Path) -> None:
    """The example's schedule, made due by the hand of the test."""
    module = str(program("schedules.md", tmp_path))
    page = (CONCEPTS / "schedules.md").read_text(encoding="utf-8")
    [command] = re.findall(r"regente (schedules add .*?) --import", page, re.DOTALL)
    await ran(start, *shlex.split(command.replace("\\\n", "")), "--import", module)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("UPDATE regente.schedules SET next_at = '2026-03-10 04:00:00+00'")
        await connection.execute("UPDATE regente.schedules SET catch_up = 'one'")
        start("run", "--import", module)

        async def first() -> Any:
            found = await connection.execute("SELECT min(id) FROM regente.tasks")
            return (await found.fetchone() or (None,))[0]

        task_id = await eventually_async(first, within_seconds=60)
    assert re.fullmatch(r"north: \d{4}-\d\d-\d\d \d\d:00", await result_of(database_url, task_id))
    shown = await ran(start, "schedules", "runs", "hourly-report")
    assert "missed" in shown
    assert "queued" in shown
    await ran(start, "schedules", "pause", "hourly-report")
    assert "paused" in await ran(start, "schedules", "list")


async def test_versions(start: Start, database_url: str, tmp_path: Path) -> None:
    """The example against tasks of the code before it, which a runner of that code began."""
    page = (CONCEPTS / "versions.md").read_text(encoding="utf-8")
    module = program("versions.md", tmp_path)
    new = module.read_text(encoding="utf-8")
    old = re.sub(r'"DOWNLOAD", download, (.*), aliases=.*\)', r'"FETCH", fetch, \1)', new)
    old = old.replace("async def download", "async def fetch").replace('"2.0"', '"1.0"')
    assert "aliases" not in old
    module.write_text(old, encoding="utf-8")
    await ran(start, "enqueue", "offers", '{"url": "shop.example"}', "--import", str(module))
    runner = start("run", "--import", str(module))

    async def waits() -> bool:
        return "approval" in await ran(start, "tasks", "waiting")

    await eventually_async(waits, within_seconds=60)
    runner.send(signal.SIGTERM)
    await asyncio.to_thread(runner.wait, 60)
    check = ("deploy", "check", "--import", str(module))
    module.write_text(new, encoding="utf-8")
    assert "1 understood" in await ran(start, *check)
    module.write_text(re.sub(", aliases=.*\\)", ")", new), encoding="utf-8")
    found = await asyncio.to_thread(start(*check).wait, 60)
    assert found.code == 1
    assert "has not asked for FETCH" in " ".join(found.out.split())
    assert "unasked" in page
    await ran(start, *check, "--accept", "unasked")
    shown = await ran(start, "tasks", "show", "1")
    assert re.search(r"Version +1\.0", shown)


async def test_lane_calls(start: Start, database_url: str, tmp_path: Path) -> None:
    module = str(program("lane-calls.md", tmp_path))
    urls = '{"urls": ["https://a.example/1", "https://a.example/2", "https://b.example/333"]}'
    await ran(start, "enqueue", "prices", urls, "--import", module)
    start("run", "--import", module)
    assert await result_of(database_url, 1) == len("https://a.example/1")
    lanes = await ran(start, "lanes", "list", "--pipeline", "prices")
    assert [name in lanes for name in ("shop:a.example", "shop:b.example", "reports")] == [True] * 3


async def test_enqueue(start: Start, database_url: str, tmp_path: Path) -> None:
    """By the program and by the trigger, which share the key."""
    path = program("enqueue.md", tmp_path)
    start("run", "--import", str(path))
    spec = importlib.util.spec_from_file_location("prices_of_the_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    async with Regente(database_url) as app:
        asked = await module.ask(app, "chair")
        assert asked.created
    assert await result_of(database_url, asked) == "chair in 3 shops"
    [statements] = re.findall(
        r"```sql\n(.*?)```", (CONCEPTS / "enqueue.md").read_text(encoding="utf-8"), re.DOTALL
    )
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("CREATE TABLE products (name text)")
        await connection.execute(statements)
        await connection.execute("INSERT INTO products VALUES ('chair'), ('table')")
        found = await connection.execute("SELECT id, key FROM regente.tasks ORDER BY id")
        rows = await found.fetchall()
    assert [key for _, key in rows] == ["chair", "table"]
    assert await result_of(database_url, rows[1][0]) == "table in 3 shops"


async def test_blocking(start: Start, database_url: str, tmp_path: Path) -> None:
    path = program("blocking.md", tmp_path)
    start("run", "--import", str(path))
    environment = {**os.environ, "REGENTE_DATABASE_URL": database_url}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(path), "2030-01"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("report of 2030-01\n", "")


async def test_children(start: Start, database_url: str, tmp_path: Path) -> None:
    module = str(program("children.md", tmp_path))
    pages = '{"pages": ["um dois", "three four five"]}'
    await ran(start, "enqueue", "census", pages, "--import", module)
    start("run", "--import", module)
    assert await result_of(database_url, 1) == 5
    assert "COUNT" in await ran(start, "tasks", "children", "1")
