"""An app that conducts missions with quick settings, and functions that set up a fleet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.read_models import Mission
from regente.settings import Settings
from tests.support.eventually import eventually_async
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

MISSION = MissionArgs(
    date_start=date(2025, 1, 15), date_end=date(2025, 1, 15), media_type="video", languages=("pt",)
)
STORAGE = "127.0.0.1:9"  # no server listens there
QUICK = {
    "timeout_session": 20.0,
    "timeout_job": 30.0,
    "polling_session": 0.05,
    "polling_job": 0.05,
    "polling_orchestrator": 0.05,
    "outage_seconds": 1.0,
    "cancel_seconds": 10.0,
    "error_backoff": 0.05,
    "watch_seconds": 0.05,
    "http_timeout": 5.0,
    "sweep_seconds": 0.2,
    "batches_seconds": 0.2,
    "schedules_seconds": 0.2,
    "drain_seconds": 5.0,
}


def config(**changes: Any) -> pytest.MarkDecorator:
    """Other settings than the quick ones, for one test."""
    return pytest.mark.parametrize("settings", [changes], indirect=True, ids=["config"])


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    return Settings(data_dir=tmp_path, **{**QUICK, **getattr(request, "param", {})})


@pytest.fixture
async def app(database_url: str, registry: Registry, settings: Settings) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        opened.conduct_missions()
        yield opened


@contextlib.asynccontextmanager
async def fleet_of(
    app: Regente, *peers: ScriptedWorker | ScriptedWriter, proxies: int = 2
) -> AsyncIterator[None]:
    """Serves and registers the peers, with this many proxies."""
    async with contextlib.AsyncExitStack() as stack:
        for peer in peers:
            url = await stack.enter_async_context(peer.served())
            if isinstance(peer, ScriptedWorker):
                await app.fleet.add_worker(peer.name, url, API_KEY, STORAGE)
            else:
                await app.fleet.add_writer(peer.name, url, API_KEY)
        for number in range(proxies):
            await app.fleet.add_proxy(
                f"proxy-{number + 1}", "proxy.example.com", 8000 + number, "user", "a-password"
            )
        yield


@contextlib.asynccontextmanager
async def conducting(
    app: Regente, *peers: ScriptedWorker | ScriptedWriter, proxies: int = 2
) -> AsyncIterator[None]:
    async with fleet_of(app, *peers, proxies=proxies), runner_in(app):
        yield


async def run_one(
    app: Regente, *peers: ScriptedWorker | ScriptedWriter, proxies: int = 2
) -> Mission:
    """One mission from the queue to its end."""
    async with conducting(app, *peers, proxies=proxies):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        return await finished(app, mission_id)


async def rows(app: Regente, text: str, **params: Any) -> list[dict[str, Any]]:
    """The rows of a query, with the schema in the search path."""
    async with (
        app.database.transaction() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute("SET LOCAL search_path = regente")
        await cursor.execute(text.encode(), params)
        return await cursor.fetchall() if cursor.description is not None else []


async def until(app: Regente, text: str, **params: Any) -> dict[str, Any]:
    """The first row, as soon as there is one."""

    async def there() -> list[dict[str, Any]]:
        return await rows(app, text, **params)

    return (await eventually_async(there))[0]


async def finished(app: Regente, mission_id: int, within_seconds: float = 60.0) -> Mission:
    async def ended() -> Mission | None:
        mission = await app.missions.get(mission_id)
        return mission if mission.finished_at is not None else None

    found = await eventually_async(ended, within_seconds=within_seconds)
    assert found is not None
    return found


async def events_of(app: Regente, mission_id: int) -> list[tuple[str, dict[str, Any]]]:
    return [(row["event"], row["details"] or {}) for row in await app.missions.timeline(mission_id)]


async def names_of(app: Regente, mission_id: int) -> list[str]:
    return [name for name, _ in await events_of(app, mission_id)]


def mission_of(key: str | None) -> int:
    """The mission in the idempotency key of its first scrape."""
    found = re.fullmatch(r"regente-[0-9a-f-]{36}-(\d+)-[0-9a-f]+-scrape-1", key or "")
    assert found is not None, key
    return int(found[1])
