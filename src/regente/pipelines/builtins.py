"""The list of the built-in pipelines.

A new one is one more line in `MODULES`; see docs/pipelines/adding-a-builtin.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection

from regente.engine.errors import InvalidInput
from regente.pipelines.builtin import Builtin

MODULES = (
    "regente.pipelines.missions",
    "regente.pipelines.quotes",
    "regente.pipelines.rounds",
    "regente.pipelines.embeddings",
    "regente.pipelines.documents",
)
VARIABLE = "REGENTE_BUILTINS"


def builtins() -> list[Builtin]:
    return [importlib.import_module(module).BUILTIN for module in MODULES]


def switched_on(setting: str) -> list[Builtin]:
    """The built-ins that REGENTE_BUILTINS enables: `all`, `none`, or names separated by commas."""
    known = {one.name: one for one in builtins()}
    if setting.strip() in ("all", "none"):
        return list(known.values()) if setting.strip() == "all" else []
    wanted = {name.strip() for name in setting.split(",") if name.strip()}
    if unknown := sorted(wanted - {*known}):
        raise InvalidInput(
            f"{VARIABLE} has unknown names: {', '.join(unknown)}; "
            f"known: all, none, {', '.join(known)}"
        )
    return [one for name, one in known.items() if name in wanted]


def serving(pipelines: Collection[str] | None, setting: str) -> list[Builtin]:
    """The built-ins that register one of these pipelines; by default all enabled ones."""
    on = switched_on(setting)
    if pipelines is None:
        return on
    wanted = [one for one in builtins() if not {*one.pipelines}.isdisjoint(pipelines)]
    require_on([one.name for one in wanted], setting)
    return wanted


def require_on(names: Collection[str], setting: str) -> None:
    """Raise an error if one of these built-ins is disabled."""
    on = {one.name for one in switched_on(setting)}
    for one in builtins():
        if one.name in names and one.name not in on:
            raise InvalidInput(
                f"{one.name} is disabled: {VARIABLE} is {setting!r}", code="SWITCHED_OFF"
            )
