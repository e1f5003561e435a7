"""`Builtin`: what Regente has to know of a pipeline that comes with it, in one descriptor.

Each folder below `regente.pipelines` has one, `BUILTIN` in its `__init__.py`. It holds names only:
the modules that it names are imported by the processes that use them.
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

    from regente.engine.client import Client
    from regente.engine.pipeline import Pipeline, Registry
    from regente.fleet.registry import Fleet
    from regente.services.sandbox.standin import Standin


@dataclass(frozen=True, slots=True)
class Host:
    """The process that a built-in is registered in."""

    registry: Registry
    client: Client
    fleet: Callable[[], Fleet]
    sandbox_url: str
    """Where stand-ins answer for providers without a key."""


async def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Registered:
    """What a built-in holds in a process that runs it."""

    close: Callable[[], Awaitable[None]] = _nothing_to_close
    fit: Callable[[list[Pipeline], int], list[Pipeline]] = lambda pipelines, _: pipelines
    """Adapts the pipelines that a runner selected to its number of slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """A pipeline folder. Its `setup.py` has `register(host: Host) -> Registered`."""

    package: str
    pipelines: tuple[str, ...]
    """The names that `register` puts into the registry."""
    migrations: Path | None = None
    """The folder of its migrations, numbered from 1; none: it has no tables."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Each command of the command line, with the module that has it."""
    api: str | None = None
    """The module with its `ROUTERS`."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The tags of its routes in the OpenAPI document, each with what it says."""
    standins: str | None = None
    """The module with `standins(seed)`: what answers for its providers in the sandbox."""
    page: str | None = None
    """The part of the web console that shows it."""

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

    def make_standins(self, seed: int) -> list[Standin]:
        return list(self._load(self.standins, "standins")(seed)) if self.standins else []

    @staticmethod
    def _load(module: str, name: str) -> Any:
        return getattr(importlib.import_module(module), name)
