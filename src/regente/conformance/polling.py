"""Polls a status until a final one, and keeps the statuses and progress on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from regente.conformance.checks import CheckFailed
from regente.conformance.http import Reply

_FIRST_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 2.0
_MAX_BROKEN_REPLIES = 3
_MAX_PROGRESS_ENTRIES = 1000


@dataclass(slots=True)
class StatusHistory:
    """The statuses of one poll; `final` is None when time ran out or replies stayed broken."""

    sent: str = ""
    seconds: float = 0.0
    final: str | None = None
    statuses: list[str] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    progress: list[Any] = field(default_factory=list)
    broken_replies: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        path = " → ".join(self.statuses) or "no status"
        end = "" if self.final else f"; no end within {self.seconds:.1f} s"
        failure = f"; {self.broken_replies[-1]}" if self.broken_replies and not self.final else ""
        return f"{self.sent}: {path}{end}{failure}"

    def expect_known_values(self) -> None:
        if self.broken_replies:
            raise CheckFailed(self.broken_replies[0])


async def poll_status(
    ask: Callable[[], Awaitable[Reply]],
    *,
    known: type[StrEnum],
    final: Collection[str],
    within_seconds: float,
) -> StatusHistory:
    found, started, pause, broken = StatusHistory(), time.monotonic(), _FIRST_PAUSE_SECONDS, 0
    while True:
        reply = await ask()
        found.sent, found.seconds = reply.sent, time.monotonic() - started
        broken = 0 if _note(found, reply, known) else broken + 1
        if found.statuses and found.statuses[-1] in final and not broken:
            found.final = found.statuses[-1]
        if found.final or broken >= _MAX_BROKEN_REPLIES or found.seconds + pause > within_seconds:
            return found
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _MAX_PAUSE_SECONDS)


def _note(found: StatusHistory, reply: Reply, known: type[StrEnum]) -> bool:
    """Record a reply; False if it has no usable status."""
    try:
        document = reply.expect(200).document()
    except CheckFailed as error:
        found.broken_replies.append(str(error))
        return False
    status = document.get("status")
    values = [value.value for value in known]
    if status not in values:
        found.broken_replies.append(f"{reply}; status is none of {', '.join(values)}")
        return isinstance(status, str)
    found.last = document
    if len(found.progress) < _MAX_PROGRESS_ENTRIES and found.progress[-1:] != [
        document.get("progress")
    ]:
        found.progress.append(document.get("progress"))
    if not found.statuses or found.statuses[-1] != status:
        found.statuses.append(status)
    return True


__all__ = ["StatusHistory", "poll_status"]
