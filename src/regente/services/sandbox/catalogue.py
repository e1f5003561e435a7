"""The content of the ad library, derived from the seed, and the exact total of any filter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from regente.contracts.worker import Filters
from regente.services.sandbox import wording

FORMATS = ("image", "video")
EMPTY_DAY_OF_MONTH = 13
"""No ad starts on the 13th, so that some filters match nothing."""

_CACHED_SELECTIONS = 32


@dataclass(frozen=True, slots=True)
class Ad:
    id: str
    page_name: str
    text: str
    format: str
    language: str
    started_on: str
    qtd_ads: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Place(NamedTuple):
    """The sort key of an ad: highest `qtd_ads` first, as the library sorts."""

    rank: int
    day: int
    language: str
    format: str
    number: int


class Catalogue:
    """Every ad by day, language and format; a day has up to `ads_per_cell` of each combination."""

    def __init__(self, seed: int = 1, ads_per_cell: int = 20) -> None:
        self.seed = seed
        self.ads_per_cell = ads_per_cell
        self._selection = lru_cache(maxsize=_CACHED_SELECTIONS)(self._select)

    def total(self, filters: Filters) -> int:
        """Number of ads that match the filters: what a complete scrape finds."""
        return sum(self._cell_size(*cell) for cell in _cells(*_key(filters)))

    def ads(self, filters: Filters, start: int = 0, stop: int | None = None) -> list[Ad]:
        return [self._ad(place) for place in self._selection(*_key(filters))[start:stop]]

    def _select(
        self, first: date, last: date, formats: tuple[str, ...], languages: tuple[str, ...]
    ) -> list[_Place]:
        places = (
            _Place(
                -self._qtd_ads(day, language, kind, number), day.toordinal(), language, kind, number
            )
            for day, language, kind in _cells(first, last, formats, languages)
            for number in range(self._cell_size(day, language, kind))
        )
        return sorted(places)

    def _cell_size(self, day: date, language: str, kind: str) -> int:
        if day.day == EMPTY_DAY_OF_MONTH or language not in wording.LANGUAGES:
            return 0
        return 1 + self._hash("size", day, language, kind) % self.ads_per_cell

    def _qtd_ads(self, day: date, language: str, kind: str, number: int) -> int:
        return 1 + self._hash("qtd", day, language, kind, number) % 60

    def _ad(self, place: _Place) -> Ad:
        day = date.fromordinal(place.day)
        digest = self._hash("ad", day, place.language, place.format, place.number)
        page_name, text = wording.write(digest, place.language, place.number)
        number = 10**15 + digest % (9 * 10**15)
        return Ad(
            str(number), page_name, text, place.format, place.language, day.isoformat(), -place.rank
        )

    def _hash(self, *what: object) -> int:
        digest = hashlib.blake2b(
            "/".join(map(str, (self.seed, *what))).encode(), digest_size=8
        ).digest()
        return int.from_bytes(digest)


def _key(filters: Filters) -> tuple[date, date, tuple[str, ...], tuple[str, ...]]:
    formats = FORMATS if filters.format == "all" else (filters.format,)
    return (
        filters.date_range.start,
        filters.date_range.end,
        formats,
        tuple(sorted(set(filters.languages))),
    )


def _cells(
    first: date, last: date, formats: Iterable[str], languages: Iterable[str]
) -> Iterator[tuple[date, str, str]]:
    for offset in range((last - first).days + 1):
        day = first + timedelta(days=offset)
        for language in languages:
            for kind in formats:
                yield day, language, kind
