"""One day for the whole folder; SQL as a script writes it, kept or rolled back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from regente.queries import Queries
from tests.contract.scraping_orchestrator.day import Day, conduct
from tests.support.clean_database import clean_database

QUERIES = Queries(Path(__file__).with_name("specification.sql"))


@pytest.fixture(scope="session")
def day(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with clean_database(server_url, template) as url:
        yield conduct(url, tmp_path_factory.mktemp("day"))


class Sql:
    """The document's statements by name, or any others; `:param` is rewritten for psycopg."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection

    def __call__(self, statement: str, **params: Any) -> list[dict[str, Any]]:
        text = QUERIES.statements.get(statement, statement)
        cursor = self._connection.execute(
            re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text).encode(), params
        )
        return cursor.fetchall() if cursor.description is not None else []


@pytest.fixture
def sql(day: Day) -> Iterator[Sql]:
    """A script's connection with the schema in its search_path. What it writes is rolled back."""
    with psycopg.connect(day.url, row_factory=dict_row) as connection:
        connection.execute("SET search_path = regente")
        yield Sql(connection)
        connection.rollback()
