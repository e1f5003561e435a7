"""The models of parsed pages. A field that is missing, empty or of another type is an error."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from regente.pipelines.rounds.args import League, MatchId, RoundNumber

_DIGITS = re.compile(r"[0-9]{1,9}")
MAX_MATCHES = 500
MAX_ROWS = 1000


def _whole(value: Any) -> int:
    """Only digits: `int()` also accepts ' 1_0 ', and pydantic '10.0'."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ValueError("a whole number is needed")
    return int(value)


Whole = Annotated[int, BeforeValidator(_whole)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Minute = Annotated[Whole, Field(ge=0, le=150)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,99}$")]


class Side(StrEnum):
    HOME = "home"
    AWAY = "away"


class PlayState(StrEnum):
    SCHEDULED = "scheduled"
    LIVE = "live"
    POSTPONED = "postponed"
    FINISHED = "finished"


class EventKind(StrEnum):
    GOAL = "goal"
    OWN_GOAL = "own_goal"
    YELLOW_CARD = "yellow_card"
    RED_CARD = "red_card"
    SUBSTITUTION = "substitution"


class Sheet(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListedMatch(Sheet):
    match_id: MatchId
    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class RoundSheet(Sheet):
    """A round's page."""

    league: League
    number: Annotated[RoundNumber, BeforeValidator(_whole)]
    matches_said: Annotated[Whole, Field(ge=1, le=MAX_MATCHES)]
    matches: Annotated[list[ListedMatch], Field(max_length=MAX_MATCHES)]

    @model_validator(mode="after")
    def _complete(self) -> RoundSheet:
        if len(self.matches) != self.matches_said:
            raise ValueError(
                f"the page declares {self.matches_said} matches and lists {len(self.matches)}"
            )
        if len({match.match_id for match in self.matches}) != len(self.matches):
            raise ValueError("the page lists a match twice")
        return self


class Fixture(Sheet):
    """The page of a match, played or not."""

    match_id: MatchId
    status: PlayState
    kickoff_at: AwareDatetime


class TeamSheet(Sheet):
    side: Side
    slug: Slug
    name: Text
    goals: Annotated[Whole, Field(le=99)]


class EventSheet(Sheet):
    minute: Minute
    kind: EventKind
    side: Side
    player: Text


class StatSheet(Sheet):
    name: Slug
    side: Side
    value: Whole


class MatchSheet(Sheet):
    """The page of a finished match."""

    match_id: MatchId
    status: Literal[PlayState.FINISHED]
    kickoff_at: AwareDatetime
    venue: Text
    attendance: Whole | None = None
    teams: Annotated[list[TeamSheet], Field(min_length=2, max_length=2)]
    events_said: Annotated[Whole, Field(le=MAX_ROWS)]
    events: Annotated[list[EventSheet], Field(max_length=MAX_ROWS)]
    stats_said: Annotated[Whole, Field(ge=1, le=MAX_ROWS)]
    stats: Annotated[list[StatSheet], Field(max_length=MAX_ROWS)]

    @model_validator(mode="after")
    def _consistent(self) -> MatchSheet:
        home, away = self._sides()
        if home.slug == away.slug:
            raise ValueError("both teams are the same")
        if len(self.events) != self.events_said:
            raise ValueError(
                f"the page declares {self.events_said} events and lists {len(self.events)}"
            )
        if len(self.stats) != self.stats_said:
            raise ValueError(
                f"the page declares {self.stats_said} stats and lists {len(self.stats)}"
            )
        if len({(stat.name, stat.side) for stat in self.stats}) != len(self.stats):
            raise ValueError("a stat is there twice for one team")
        for team in (home, away):
            if team.goals != (shot := self._goals_of(team.side)):
                raise ValueError(
                    f"{team.goals} goals of the {team.side} team, and events for {shot}"
                )
        return self

    def _sides(self) -> tuple[TeamSheet, TeamSheet]:
        by_side = {team.side: team for team in self.teams}
        if len(by_side) != 2:
            raise ValueError("both teams play on the same side")
        return by_side[Side.HOME], by_side[Side.AWAY]

    def _goals_of(self, side: Side) -> int:
        own = sum(event.kind is EventKind.GOAL and event.side is side for event in self.events)
        return own + sum(
            event.kind is EventKind.OWN_GOAL and event.side is not side for event in self.events
        )
