"""The same run on every supported PostgreSQL and through a transaction pooler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from regente import Regente
from tests.integration.missions_tour import take_missions_tour
from tests.integration.tour import take_tour
from tests.support.postgres_servers import MAJORS, pgbouncer, require_postgres, start_server
from tests.support.server_users import open_folder


@pytest.fixture(params=MAJORS)
def any_server(request: pytest.FixtureRequest) -> Iterator[str]:
    with (
        open_folder() as folder,
        start_server(require_postgres(request.param), folder / str(request.param)) as url,
    ):
        yield url


async def test_the_engine_does_everything_on_every_supported_version(
    any_server: str, tmp_path: Path
) -> None:
    """PostgreSQL 14 to 18; O1: missions and their views, too."""
    await take_tour(any_server)
    await take_missions_tour(any_server, tmp_path)


async def test_the_engine_does_everything_through_a_transaction_pooler(
    database_url: str, tmp_path: Path
) -> None:
    """F13: through PgBouncer in transaction mode it polls instead of listening."""
    with pgbouncer(database_url) as url:
        async with Regente(url) as app:
            assert app.database.through_pooler
        await take_tour(url)
        await take_missions_tour(url, tmp_path)


def test_a_direct_connection_is_not_taken_for_a_pooler(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row == (connection.info.backend_pid,)
