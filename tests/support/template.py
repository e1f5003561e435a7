"""Installs the schema once into the database that every test's own is copied from."""

from __future__ import annotations

import asyncio

import psycopg

from regente.app import prepare_schema
from regente.components import every_component


def install_schema(url: str) -> None:
    asyncio.run(prepare_schema(url, every_component(), upgrade=True))
    with psycopg.connect(url) as connection:  # else each copy would be a restored database
        connection.execute("DELETE FROM regente.timelines")
