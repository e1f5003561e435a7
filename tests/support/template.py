"""Installs the schema once into the database that every test's own is copied from."""

from __future__ import annotations

import asyncio

from regente.app import prepare_schema
from regente.components import every_component


def install_schema(url: str) -> None:
    asyncio.run(prepare_schema(url, every_component(), upgrade=True))
