"""A database for each test: killed and frozen processes may keep connections to theirs."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(fresh_database: str) -> str:
    return fresh_database
