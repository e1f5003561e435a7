"""A database of its own for each test: killed and frozen processes may hold on to theirs."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(fresh_database: str) -> str:
    return fresh_database
