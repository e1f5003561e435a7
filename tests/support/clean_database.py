"""A database that outlives one test."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

_numbers = itertools.count(1)


@contextlib.contextmanager
def clean_database(server_url: str, template: str) -> Iterator[str]:
    name = sql.Identifier(f"regente_clean_{os.getpid()}_{next(_numbers)}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template))
        )
        yield make_conninfo(server_url, dbname=name.as_string().strip('"'))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@contextlib.contextmanager
def empty_database(server_url: str) -> Iterator[str]:
    """A database without our schema."""
    name = f"regente_empty_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(server_url, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
