"""Finds the adapters of leagues' sites: those that come with Regente, entry points of installed
packages (group `regente.rounds.sites`), and what REGENTE_ROUNDS_SITES names.

A reference names an adapter in any process: `module:object`, or the path of a `.toml` file.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from regente.engine.errors import Fatal, InvalidInput
from regente.pipelines.rounds.adapters import SiteAdapter
from regente.pipelines.rounds.selectors import SelectorSite

GROUP = "regente.rounds.sites"
SITES = Path(__file__).parent / "sites"
DEFAULT = "regente.pipelines.rounds.sites.league:SITE"
OURS = {"league": DEFAULT, "placar": str(SITES / "placar.toml")}


@dataclass(frozen=True, slots=True)
class KnownSite:
    name: str
    reference: str
    adapter: SiteAdapter

    def has(self, league: str) -> bool:
        return any(fnmatchcase(league, pattern) for pattern in self.adapter.leagues)


def known_sites(setting: str = "") -> list[KnownSite]:
    """All of them; the sandbox's league comes last and has every league that no other one has."""
    named = [part.strip() for part in setting.split(",") if part.strip()]
    found = {_name_of(reference): reference for reference in named}
    for one in entry_points(group=GROUP):
        _add(found, one.name, one.value)
    for name, reference in OURS.items():
        _add(found, name, reference)
    default = found.pop("league")
    return [
        KnownSite(name, reference, load_adapter(reference))
        for name, reference in {**found, "league": default}.items()
    ]


def site_of(sites: Sequence[KnownSite], league: str) -> KnownSite:
    """The site that has the league. Two are an error: neither is the obvious one."""
    found = [site for site in sites if site.name != "league" and site.has(league)]
    if len(found) > 1:
        names = " and ".join(site.name for site in found)
        raise Fatal(
            f"{names} both have the league {league}: change the leagues of one", code="TWO_SITES"
        )
    if found:
        return found[0]
    [default] = [site for site in sites if site.name == "league"]
    return default


@functools.lru_cache(maxsize=100)
def load_adapter(reference: str) -> SiteAdapter:
    if reference.endswith(".toml"):
        return SelectorSite.read(Path(reference))
    return _checked(reference, _imported(reference))


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    if not name:
        raise InvalidInput(
            f"{reference!r} is not a site: name a .toml file, or module:object", code="BAD_SITE"
        )
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the module may raise anything
        raise InvalidInput(
            f"the site {reference} cannot be imported: {type(error).__name__}: {error}",
            code="BAD_SITE",
        ) from error
    return found() if isinstance(found, type) else found


def _checked(reference: str, found: Any) -> SiteAdapter:
    parts = ("leagues", "base_url", "round_url", "discover", "parse")
    missing = [part for part in parts if not hasattr(found, part)]
    if missing:
        raise InvalidInput(
            f"the site {reference} has no {', '.join(missing)}: see SiteAdapter", code="BAD_SITE"
        )
    if isinstance(found.leagues, str) or not all(isinstance(one, str) for one in found.leagues):
        raise InvalidInput(
            f"the leagues of the site {reference} are not a list of names", code="BAD_SITE"
        )
    adapter: SiteAdapter = found
    return adapter


def _add(found: dict[str, str], name: str, reference: str) -> None:
    """A setting wins over an entry point of the same name, and that over ours."""
    found.setdefault(name, reference)


def _name_of(reference: str) -> str:
    return Path(reference).stem if reference.endswith(".toml") else reference.partition(":")[0]
