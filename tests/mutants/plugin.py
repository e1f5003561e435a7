"""A pytest plugin: runs the session with the mutant that REGENTE_TEST_MUTANT names."""

from __future__ import annotations

import os

import pytest

from regente.engine import queries
from tests.mutants.catalogue import MUTANTS


def pytest_configure(config: pytest.Config) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == os.environ["REGENTE_TEST_MUTANT"])
    mutated = mutant.applied_to(queries.engine_queries())
    queries.engine_queries = lambda: mutated
