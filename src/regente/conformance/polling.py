"""Asks for a status until it is a final one, and keeps what was said on the way."""

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
_LONGEST_PAUSE_SECONDS = 2.0
_BROKEN_IN_A_ROW = 3
_KEPT_PROGRESS = 1000


@dataclass(slots=True)
class StatusHistory:
    """`final` is the status that ended it; None when none came in time, or only broken answers."""

    sent: str = ""
    seconds: float = 0.0
    final: str | None = None
    statuses: list[str] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    progress: list[Any] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        path = " → ".join(self.statuses) or "no status"
        end = "" if self.final else f"; no end within {self.seconds:.1f} s"
        failure = f"; {self.wrong[-1]}" if self.wrong and not self.final else ""
        return f"{self.sent}: {path}{end}{failure}"

    def expect_known_values(self) -> None:
        if self.wrong:
            raise CheckFailed(self.wrong[0])


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
        if found.final or broken >= _BROKEN_IN_A_ROW or found.seconds + pause > within_seconds:
            return found
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _note(found: StatusHistory, reply: Reply, known: type[StrEnum]) -> bool:
    """False for an answer that says nothing."""
    try:
        document = reply.expect(200).document()
    except CheckFailed as unmet:
        found.wrong.append(str(unmet))
        return False
    status = document.get("status")
    values = [value.value for value in known]
    if status not in values:
        found.wrong.append(f"{reply}; status is none of {', '.join(values)}")
        return isinstance(status, str)
    found.last = document
    if len(found.progress) < _KEPT_PROGRESS and found.progress[-1:] != [document.get("progress")]:
        found.progress.append(document.get("progress"))
    if not found.statuses or found.statuses[-1] != status:
        found.statuses.append(status)
    return True


__all__ = ["StatusHistory", "poll_status"]
