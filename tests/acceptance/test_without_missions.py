"""An API and a command line without missions: no table of theirs, and everything else works."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Fatal, Regente, Task
from regente.components import every_component
from regente.engine.migrations import read_migrations
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.acceptance.conftest import Cli, CliProcess
from tests.api.conftest import Served, body_of, served
from tests.support.clean_database import empty_database
from tests.support.eventually import eventually

ONLY: list[tuple[str, set[str]]] = [("none", set()), ("rounds", {"rounds"})]
ENDLESS = ("/api/stream",)


@pytest.fixture
def database_url(server_url: str) -> Iterator[str]:
    with empty_database(server_url) as url:
        yield url


@pytest.fixture
def registry() -> Registry:
    found = Registry()

    @found.pipeline("shop")
    async def shop(task: Task[dict[str, Any]]) -> None:
        if task.args.get("fail"):
            raise Fatal("sold out", code="SOLD_OUT")

    return found


@pytest.mark.parametrize(("builtins", "own"), ONLY, ids=["own pipeline only", "one built-in"])
async def test_the_api_and_the_command_line_work_without_missions(
    builtins: str,
    own: set[str],
    cli: Cli,
    database_url: str,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Q10: `REGENTE_BUILTINS` without missions gives an API without their tables."""
    monkeypatch.setenv("REGENTE_BUILTINS", builtins)
    app = Regente(
        database_url,
        settings=Settings(builtins=builtins, sweep_seconds=0.2),
        pipelines=registry,
        components=["api", *own],
    )
    async with app:
        good = await app.enqueue("shop", {})
        bad = await app.enqueue("shop", {"fail": True})
        await app.run(["shop"], until_idle=True)
        async with served(app) as api:
            await shows_everything(api)
            await shows_events(api, good)
            await retries(api, bad)
    await commands_work(cli)
    found = tables(database_url)
    assert {"tasks", "api_keys", *own} <= found
    assert not found & tables_of("missions")


async def test_up_without_built_ins_starts_no_runner(
    start: Callable[..., CliProcess], tmp_path: Path
) -> None:
    """It would have no pipeline to run, and be restarted until `up` gives up."""
    process = start("up", "--port", "0", REGENTE_BUILTINS="none", REGENTE_DATA_DIR=str(tmp_path))
    eventually(process.said("regente run --import MODULE"), within_seconds=60)
    process.send(signal.SIGINT)
    answer = process.wait()
    assert answer.code == 0, answer
    assert "Running: console." in answer.err
    assert "restarted" not in answer.err


async def shows_everything(api: Served) -> None:
    """Every page that needs no id; the overview and the metrics say what there is."""
    document = body_of(await api.viewer.get("/openapi.json"))
    paths = [path for path, routes in document["paths"].items() if "get" in routes]
    assert not [path for path in paths if path.startswith(("/api/missions", "/api/workers"))]
    for path in [path for path in paths if "{" not in path and path not in ENDLESS]:
        answer = await api.admin.get(path)
        assert answer.status_code < 500, (path, answer.text)
    stats = body_of(await api.viewer.get("/api/stats"))
    assert [one["code"] for one in stats["attention"]] == ["DEAD_LETTERS"]
    assert stats["health"]["workers"] == {}
    assert [one["sessions"] for one in [body_of(await api.viewer.get("/api/trends"))]] == [[]]
    metrics = (await api.viewer.get("/metrics")).text
    assert 'regente_tasks{pipeline="shop",status="failed"} 1.0' in metrics
    assert "regente_database_up 1.0" in metrics
    assert "regente_missions" not in metrics
    page = await api.anonymous.get("/")
    assert (page.status_code, "<title>Regente" in page.text) == (200, True)


async def shows_events(api: Served, task_id: int) -> None:
    """A mission is a task like others here, and no worker has events."""
    answer = await api.viewer.get("/api/events", params={"mission_id": task_id})
    events = body_of(answer)["items"]
    assert [one["event"] for one in events][-1] == "task_queued"
    assert {one["task_id"] for one in events} == {task_id}
    answer = await api.viewer.get("/api/events", params={"worker_id": "w1"})
    assert body_of(answer)["items"] == []


async def retries(api: Served, task_id: int) -> None:
    """In bulk and singly; the bulk actions of missions are unknown."""
    action = body_of(await api.operator.post("/api/failures/retry", json={"ids": [task_id]}))
    assert (action["status"], action["changed"]) == ("completed", 1)
    done = await api.operator.post(f"/api/tasks/{task_id}/cancel")
    assert body_of(done)["status"] == "canceled"
    assert body_of(await api.operator.post(f"/api/tasks/{task_id}/retry"))["status"] == "queued"
    assert (await api.operator.post("/api/missions/queue", json={"ids": [1]})).status_code == 404


async def commands_work(cli: Cli) -> None:
    for words in (
        *(("tasks", "list"), ("batches", "list"), ("runners",), ("dead", "list")),
        *(("events",), ("pipelines", "list"), ("settings", "list"), ("keys", "list")),
        *(("schedules", "list"), ("migrate", "status")),
    ):
        await cli.json(*words)
    for words in (("fleet", "list"), ("missions", "list")):
        assert (await cli(*words, "--json")).error["code"] == "SWITCHED_OFF"


def tables_of(component: str) -> set[str]:
    [found] = [one for one in every_component() if one.name == component]
    scripts = "".join(migration.up for migration in read_migrations(found))
    return set(re.findall(r"CREATE TABLE regente\.(\w+)", scripts))


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'regente'")
        return {name for (name,) in rows}
