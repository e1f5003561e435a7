"""A league's site over real HTTP, an app that scrapes it quickly, and a reader of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.read_models import RoundMatch
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.setup import register_rounds
from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.support.eventually import eventually_async

LEAGUE = "brasileirao-2025"
QUICK: dict[str, Any] = {
    "pause_seconds": 0.0,
    "page_seconds": 5.0,
    "retry_first_seconds": 0.02,
    "retry_most_seconds": 0.1,
    "recheck_seconds": 0.05,
    "match_seconds": 0.0,
}


def config(**changes: Any) -> pytest.MarkDecorator:
    """Other settings of the pipeline than the quick ones, for one test."""
    return pytest.mark.parametrize("round_settings", [changes], indirect=True, ids=["config"])


@pytest.fixture
def settings() -> Settings:
    return Settings(
        sweep_seconds=0.1, batches_seconds=0.1, schedules_seconds=1.0, drain_seconds=5.0
    )


@pytest.fixture
def round_settings(request: pytest.FixtureRequest) -> RoundSettings:
    return RoundSettings(**{**QUICK, **getattr(request, "param", {})})


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, seed=7, standins=[League(7)]) as place:
        yield place


@pytest.fixture
def league(sandbox: Sandbox) -> League:
    return next(one for one in sandbox.standins if isinstance(one, League))


@pytest.fixture
async def app(
    database_url: str,
    registry: Registry,
    settings: Settings,
    round_settings: RoundSettings,
    sandbox: Sandbox,
) -> AsyncIterator[Regente]:
    http = HttpClient()
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        register_rounds(registry, opened, http, round_settings, sandbox.url)
        yield opened
    await http.close()


@pytest.fixture
def operations(app: Regente) -> RoundOperations:
    return RoundOperations(app)


class DatabaseReader:
    """Reads the raw tables, without the pipeline's own SQL."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self.connection = connection

    def rows(self, text: str, *params: Any) -> list[dict[str, Any]]:
        return self.connection.execute(text.encode(), params).fetchall()

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) AS n FROM regente.{table}")[0]["n"])


@contextmanager
def open_reader(url: str) -> Iterator[DatabaseReader]:
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        yield DatabaseReader(connection)


@pytest.fixture
def db(database_url: str) -> Iterator[DatabaseReader]:
    with open_reader(database_url) as opened:
        yield opened


async def run_round(app: Regente, number: int = 12) -> dict[str, RoundMatch]:
    """Start a round and run until nothing is left to do; its matches by their id."""
    started = await RoundOperations(app).start(LEAGUE, number)
    await app.run(until_idle=True)
    return {match.match_id: match for match in await RoundOperations(app).matches(started.id)}


async def until_state(
    operations: RoundOperations, round_id: int, *states: str, within_seconds: float = 60.0
) -> None:
    async def there() -> bool:
        return (await operations.get(round_id)).status in states

    await eventually_async(there, within_seconds=within_seconds)
