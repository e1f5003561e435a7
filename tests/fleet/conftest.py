"""A fleet register on a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.pipeline import Registry
from regente.fleet.registry import Fleet
from regente.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """A fleet with the timeout that the test gives."""
    return Settings(data_dir=tmp_path, http_timeout=getattr(request, "param", 20.0))


@pytest.fixture
async def fleet(database_url: str, settings: Settings) -> AsyncIterator[Fleet]:
    async with Regente(database_url, settings=settings, pipelines=Registry()) as opened:
        yield opened.fleet


async def rows(fleet: Fleet, text: str, **params: Any) -> list[dict[str, Any]]:
    async with (
        fleet.database.transaction() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute("SET LOCAL search_path = regente")
        await cursor.execute(text.encode(), params)
        return await cursor.fetchall() if cursor.description is not None else []
