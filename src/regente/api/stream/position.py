"""A position in the feed: after the event with this transaction id and event id (`txid-id`),
and the timeline in which it was read (`txid-id-timeline`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from regente.engine.errors import InvalidInput

_WRITTEN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})(?:-([0-9a-f]{8}))?")


class Position(NamedTuple):
    txid: int
    id: int
    timeline: str = ""

    @classmethod
    def of(cls, text: str) -> Position:
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise InvalidInput("a position in the feed is written like 812-90210")
        return cls(int(found[1]), int(found[2]), found[3] or "")

    def __str__(self) -> str:
        return f"{self.txid}-{self.id}" + (f"-{self.timeline}" if self.timeline else "")


BEGINNING = Position(0, 0)
