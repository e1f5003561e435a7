"""The components with tables of their own, in the order of their installation."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from regente.engine.migrations import ENGINE, Component
from regente.pipelines.builtins import builtins

API = Component("api", Path(__file__).parent / "api" / "migrations")


def every_component() -> list[Component]:
    found = [ENGINE, *(one.component for one in builtins()), API]
    return [component for component in found if component is not None]


def components_of(names: Collection[str]) -> list[Component]:
    """The engine and the components with these names."""
    wanted = {ENGINE.name, *names}
    return [component for component in every_component() if component.name in wanted]
