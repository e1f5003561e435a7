"""The schema, installed once into the database from which every test's own is copied."""

from __future__ import annotations

import asyncio

from regente.app import prepare_schema


def install_schema(url: str) -> None:
    asyncio.run(prepare_schema(url, upgrade=True))
