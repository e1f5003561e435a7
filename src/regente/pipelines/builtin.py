"""`Builtin`: the descriptor of a built-in pipeline.

Each folder below `regente.pipelines` has one, `BUILTIN` in its `__init__.py`. It contains module
names only; processes import the modules that they use.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regente.engine.migrations import Component

if TYPE_CHECKING:
    from fastapi import APIRouter

    from regente.api.additions import Additions
    from regente.engine.client import Client
    from regente.engine.pipeline import Pipeline, Registry
    from regente.fleet.registry import Fleet
    from regente.services.sandbox.standin import Standin


@dataclass(frozen=True, slots=True)
class Host:
    """What a process gives the built-ins that are registered in it."""

    registry: Registry
    client: Client
    fleet: Callable[[], Fleet]
    sandbox_url: str
    """The base URL of the stand-ins for providers without a key."""


async def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered built-in: how to close it, and how to adapt its pipelines to a runner."""

    close: Callable[[], Awaitable[None]] = _nothing_to_close
    fit: Callable[[list[Pipeline], int], list[Pipeline]] = lambda pipelines, _: pipelines
    """Adapts the selected pipelines to the runner's number of slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """A pipeline folder. Its `setup.py` has `register(host: Host) -> Registered`."""

    package: str
    pipelines: tuple[str, ...]
    """The names that `register` adds to the registry."""
    migrations: Path | None = None
    """The folder of its migrations, numbered from 1; None if it has no tables."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Its commands and the modules that define them."""
    api: str | None = None
    """The module with its `ROUTERS`."""
    additions: str | None = None
    """The module with its `ADDITIONS` to the API's overview, charts, event log, metrics and bulk
    actions."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The OpenAPI tags of its routes and their descriptions."""
    standins: str | None = None
    """The module with `standins(seed)`, which returns the stand-ins of its providers."""
    page: str | None = None
    """Its page in the web console."""

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def component(self) -> Component | None:
        return Component(self.name, self.migrations) if self.migrations else None

    def register(self, host: Host) -> Registered:
        registered: Registered = self._load(f"{self.package}.setup", "register")(host)
        return registered

    def routers(self) -> tuple[APIRouter, ...]:
        return tuple(self._load(self.api, "ROUTERS")) if self.api else ()

    def api_additions(self) -> tuple[Additions, ...]:
        return (self._load(self.additions, "ADDITIONS"),) if self.additions else ()

    def make_standins(self, seed: int) -> list[Standin]:
        return list(self._load(self.standins, "standins")(seed)) if self.standins else []

    @staticmethod
    def _load(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name)
