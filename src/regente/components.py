"""The components with tables of their own, in the order of their installation."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from regente.engine.migrations import ENGINE, Component
from regente.pipelines.builtins import builtins

API = Component("api", Path(__file__).parent / "api" / "migrations")
_READ_BY_THE_API = ("missions",)
"""The overview, the audit log and the metrics read the missions' tables."""


def every_component() -> list[Component]:
    found = [ENGINE, *(one.component for one in builtins()), API]
    return [component for component in found if component is not None]


def components_of(names: Collection[str]) -> list[Component]:
    """The engine and the components with these names, with those that they read."""
    wanted = {ENGINE.name, *names, *(_READ_BY_THE_API if API.name in names else ())}
    return [component for component in every_component() if component.name in wanted]
