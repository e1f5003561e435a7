"""`SelectorSite`: a site's adapter from a TOML file of CSS selectors, without code.

docs/pipelines/rounds-adapters.md has the format.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from selectolax.lexbor import LexborNode

from regente.engine.errors import InvalidInput
from regente.pipelines.rounds.adapters import Page, attribute, digits, required, text
from regente.pipelines.rounds.models import PlayState

FOUND = "found"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldRule(Part):
    """How one value is read: from an element's text or attribute, or a constant."""

    select: str | None = None
    attribute: str | None = None
    value: str | None = None
    optional: bool = False
    regex: str | None = None
    map: dict[str, str] | None = None
    slug: bool = False
    digits: bool = False
    date: str | None = None
    timezone: str = "UTC"

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        try:
            groups = 1 if regex is None else re.compile(regex).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if groups != 1:
            raise ValueError("the regular expression has one group, for the value")
        return regex

    @field_validator("timezone")
    @classmethod
    def _exists(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (OSError, ValueError, KeyError):
            raise ValueError(f"{timezone} is not a time zone") from None
        return timezone

    def read(self, node: LexborNode, url: str) -> Any:
        found = self._raw(node)
        if found is not None and self.attribute in ("href", "src"):
            found = _joined(url, found)
        if found is not None and self.regex is not None:
            match = re.search(self.regex, found)
            found = None if match is None else match[1]
        return None if found is None else self._converted(found)

    def _raw(self, node: LexborNode) -> str | None:
        if self.value is not None:
            return self.value
        if self.select is not None:
            found = node.css_first(self.select) if self.optional else required(node, self.select)
            if found is None:
                return None
            node = found
        return text(node) if self.attribute is None else attribute(node, self.attribute)

    def _converted(self, found: str) -> Any:
        if self.map is not None:
            found = self.map.get(found, found)
        if self.digits:
            found = digits(found) or ""
        if self.slug:
            found = _slug(found)
        return found if self.date is None else self._date(found)

    def _date(self, found: str) -> Any:
        assert self.date is not None
        try:
            return datetime.strptime(found, self.date).replace(tzinfo=ZoneInfo(self.timezone))
        except ValueError:
            return found  # the check of the values says that it is none


class Rows(Part):
    """A list: an element for each row, and the fields of a row."""

    rows: str
    fields: dict[str, FieldRule]

    def read(self, node: LexborNode, url: str) -> list[dict[str, Any]]:
        return [
            {name: rule.read(row, url) for name, rule in self.fields.items()}
            for row in node.css(self.rows)
        ]


class RoundRules(Part):
    root: str = "html"
    number: FieldRule
    league: FieldRule | None = None
    matches_said: FieldRule | Literal["found"]
    matches: Rows


class MatchRules(Part):
    root: str = "html"
    match_id: FieldRule
    status: FieldRule
    kickoff_at: FieldRule
    venue: FieldRule
    attendance: FieldRule | None = None
    home: dict[str, FieldRule]
    away: dict[str, FieldRule]
    events_root: str | None = None
    events: list[Rows]
    events_said: FieldRule | Literal["found"]
    stats_root: str | None = None
    stats: list[Rows]
    stats_said: FieldRule | Literal["found"]

    @model_validator(mode="after")
    def _teams_are_whole(self) -> MatchRules:
        for side in (self.home, self.away):
            if missing := {"slug", "name", "goals"} - {*side}:
                raise ValueError(f"a team has no {', '.join(sorted(missing))}")
        return self


class SiteFile(Part):
    leagues: list[str] = Field(min_length=1)
    base_url: str = Field(min_length=1)
    round_url: str
    page_end: str = "</html>"
    round: RoundRules
    match: MatchRules

    @field_validator("round_url")
    @classmethod
    def _names_the_round(cls, round_url: str) -> str:
        try:
            round_url.format(league="x", round=1)
        except (KeyError, IndexError, ValueError):
            raise ValueError("only {league} and {round} are known") from None
        if "{round}" not in round_url:
            raise ValueError("{round} is missing")
        return round_url


class SelectorSite:
    def __init__(self, rules: SiteFile) -> None:
        self._rules = rules
        self.leagues: Sequence[str] = rules.leagues
        self.base_url = rules.base_url
        self.page_end = rules.page_end

    @classmethod
    def read(cls, path: Path) -> SelectorSite:
        try:
            return cls(SiteFile.model_validate(tomllib.loads(path.read_text("utf-8"))))
        except OSError as error:
            raise _bad(path, f"it cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise _bad(path, f"it is not TOML: {error}") from None
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise _bad(path, "; ".join(wrong[:5])) from None

    def round_url(self, league: str, number: int) -> str:
        return self._rules.round_url.format(league=league, round=number)

    def discover(self, page: Page) -> Mapping[str, Any]:
        rules = self._rules.round
        root = required(page.root, rules.root)
        matches = rules.matches.read(root, page.url)
        found = {
            "number": rules.number.read(root, page.url),
            "matches_said": _said(rules.matches_said, root, page.url, len(matches)),
            "matches": matches,
        }
        return (
            found
            if rules.league is None
            else {
                **found,
                "league": rules.league.read(root, page.url),
            }
        )

    def parse(self, page: Page) -> Mapping[str, Any]:
        return _MatchPage(self._rules.match, page).values


class _MatchPage:
    def __init__(self, rules: MatchRules, page: Page) -> None:
        self._rules = rules
        self._url = page.url
        self._root = required(page.root, rules.root)

    @cached_property
    def values(self) -> dict[str, Any]:
        rules = self._rules
        fixture = {
            "match_id": self._read(rules.match_id),
            "status": self._read(rules.status),
            "kickoff_at": self._read(rules.kickoff_at),
        }
        if fixture["status"] in {*PlayState} - {PlayState.FINISHED}:
            return fixture
        events = self._rows(rules.events_root, rules.events)
        stats = [one for row in self._rows(rules.stats_root, rules.stats) for one in _stats(row)]
        return {
            **fixture,
            "venue": self._read(rules.venue),
            "attendance": rules.attendance and self._read(rules.attendance),
            "teams": [self._team("home", rules.home), self._team("away", rules.away)],
            "events_said": _said(rules.events_said, self._root, self._url, len(events)),
            "events": sorted(events, key=_minute),
            "stats_said": _said(rules.stats_said, self._root, self._url, len(stats)),
            "stats": stats,
        }

    def _read(self, rule: FieldRule) -> Any:
        return rule.read(self._root, self._url)

    def _team(self, side: str, rules: dict[str, FieldRule]) -> dict[str, Any]:
        return {"side": side, **{name: self._read(rule) for name, rule in rules.items()}}

    def _rows(self, root: str | None, groups: list[Rows]) -> list[dict[str, Any]]:
        node = self._root if root is None else required(self._root, root)
        return [row for group in groups for row in group.read(node, self._url)]


def _said(rule: FieldRule | Literal["found"], root: LexborNode, url: str, count: int) -> Any:
    return count if rule == FOUND or not isinstance(rule, FieldRule) else rule.read(root, url)


def _stats(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row with the values of both teams makes two."""
    if "side" in row:
        return [row]
    return [
        {"name": row.get("name"), "side": side, "value": row.get(side)} for side in ("home", "away")
    ]


def _minute(event: dict[str, Any]) -> int:
    minute = str(event.get("minute"))
    return int(minute) if minute.isdecimal() else 0


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall(r"[a-z0-9]+", plain))


def _joined(url: str, target: str) -> str | None:
    try:
        return urljoin(url, target)
    except ValueError:
        return None


def _bad(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"the site {path} cannot be used: {why}", code="BAD_SITE")
