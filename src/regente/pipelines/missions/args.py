"""The arguments of a mission: days, media type, languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regente.contracts.worker import DateRange, Filters, ScrapeRequest
from regente.engine.errors import InvalidInput

MediaType = Literal["all", "video", "image"]
MEDIA_TYPES: tuple[str, ...] = get_args(MediaType)
MAX_MISSIONS_AT_ONCE = 100_000
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?")


class MissionArgs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    date_start: date
    date_end: date
    media_type: MediaType
    languages: Annotated[tuple[str, ...], Field(max_length=100)]

    @field_validator("languages")
    @classmethod
    def _known_form(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        if not languages:
            raise ValueError("a mission needs at least one language")
        wrong = [language for language in languages if not _LANGUAGE.fullmatch(language)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not a language code like pt or pt-BR")
        return tuple(dict.fromkeys(languages))

    @model_validator(mode="after")
    def _in_order(self) -> MissionArgs:
        if self.date_end < self.date_start:
            raise ValueError(
                f"the range ends ({self.date_end}) before it starts ({self.date_start})"
            )
        return self

    @property
    def request(self) -> ScrapeRequest:
        """The worker's payload (2.4.1)."""
        days = DateRange(start=self.date_start, end=self.date_end)
        return ScrapeRequest(
            filters=Filters(date_range=days, format=self.media_type, languages=list(self.languages))
        )


def missions_of(
    start: date,
    end: date,
    media: Sequence[str],
    languages: Sequence[Sequence[str]],
    *,
    days_each: int = 1,
) -> list[MissionArgs]:
    """One mission for each day (or `days_each` days) × media type × group of languages."""
    count_missions(start, end, media, languages, days_each=days_each)
    return [
        _mission(first, last, kind, group)
        for first, last in _ranges(start, end, days_each)
        for kind in media
        for group in languages
    ]


def count_missions(
    start: date,
    end: date,
    media: Sequence[str],
    languages: Sequence[Sequence[str]],
    *,
    days_each: int = 1,
) -> int:
    """How many missions `missions_of` makes; raises `InvalidInput` when they are too many."""
    _check_selection(media, languages)
    if end < start:
        raise InvalidInput(f"the range ends ({end}) before it starts ({start})")
    if days_each < 1:
        raise InvalidInput("a mission covers at least one day")
    ranges = -(-_days(start, end) // days_each)
    count = ranges * len(media) * len(languages)
    if count > MAX_MISSIONS_AT_ONCE:
        raise InvalidInput(
            f"these are {count:,} missions; create at most {MAX_MISSIONS_AT_ONCE:,} at once"
        )
    return count


def _days(start: date, end: date) -> int:
    return (end - start).days + 1


def _check_selection(media: Sequence[str], languages: Sequence[Sequence[str]]) -> None:
    unknown = [one for one in media if one not in MEDIA_TYPES]
    if unknown or not media:
        raise InvalidInput(
            f"unknown media type: {', '.join(unknown) or 'none'}; known: {', '.join(MEDIA_TYPES)}"
        )
    if not languages or not all(languages):
        raise InvalidInput("a mission needs at least one language")


def _mission(first: date, last: date, media: str, languages: Sequence[str]) -> MissionArgs:
    try:
        return MissionArgs(
            date_start=first, date_end=last, media_type=media, languages=tuple(languages)
        )
    except ValueError as error:
        raise InvalidInput(
            str(error).split("\n")[2].strip() if "\n" in str(error) else str(error)
        ) from None


def _ranges(start: date, end: date, days_each: int) -> Iterator[tuple[date, date]]:
    """The range in pieces of `days_each` days, without a date after the last one."""
    days = _days(start, end)
    for offset in range(0, days, days_each):
        last = min(offset + days_each, days) - 1
        yield start + timedelta(days=offset), start + timedelta(days=last)
