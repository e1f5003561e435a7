"""The arguments of the two pipelines, and their valid values."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regente.engine.errors import InvalidInput

MAX_ROUND = 1000
_LEAGUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")

League = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]
MatchId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
RoundNumber = Annotated[int, Field(ge=1, le=MAX_ROUND)]


class RoundArgs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    round_id: int
    league: League
    number: RoundNumber


class MatchArgs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    round_id: int
    league: League
    match_id: MatchId
    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


def checked_round(league: str, number: int) -> tuple[str, int]:
    """Validate a league and a round's number."""
    if not isinstance(league, str) or not _LEAGUE.fullmatch(league):
        raise InvalidInput(
            f"{league!r:.100} is not a league: use a-z, 0-9, '-' and '_', like brasileirao-2025"
        )
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_ROUND:
        raise InvalidInput(f"a round is a number from 1 to {MAX_ROUND:,}, not {number!r}")
    return league, number
