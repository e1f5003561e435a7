"""Leaves out the long tests unless the marker `mutants` is asked for (`make mutants`)."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "mutants: runs a part of the suite once for every guard taken out (minutes)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "mutants" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("mutants")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
