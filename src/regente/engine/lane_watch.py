"""Tells lanes how attempts and calls ended, gives the calls' places back, and looks whether lanes
are ready again, after the commit that may have made room or a task. What is lost in a crash a sweep
finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from regente.engine.crashpoints import crash_point
from regente.engine.database import number_array, text_array
from regente.engine.lanes import Fetch, LaneEnd, LaneQueues, look_at_lanes, verdict_of
from regente.engine.outcome import Ended, Outcome
from regente.engine.task_store import Claim

MAX_ENDS = 10_000  # kept while the database is away; a lost end only makes a lane adapt later


class CallEnd(NamedTuple):
    """A call that needs its place no longer."""

    lane: str
    task_id: int
    attempt: int
    number: int


class LaneWatch:
    """`hear` is called with a pipeline that has a lane, and in how many seconds it is ready."""

    def __init__(self, fetch: Fetch, hear: Callable[[str, float], None]) -> None:
        self._fetch = fetch
        self._hear = hear
        self._ends: list[LaneEnd] = []
        self._left: list[CallEnd] = []
        self._queues: set[LaneQueues] = set()
        self._wake = asyncio.Event()
        self.on_left: Callable[[str], None] = lambda lane: None
        """Called with a lane in which a place is free."""

    def ended(self, claim: Claim, outcome: Outcome) -> None:
        """The outcome of an attempt in a lane is committed."""
        if claim.lane is None:
            return
        verdict, park_seconds = verdict_of(outcome)
        if claim.lane_is_watched or verdict in ("failed", "blocked", "throttled"):
            end = LaneEnd(claim.lane, claim.pipeline, claim.id, verdict, park_seconds)
            self._ends.append(end)
        if claim.lane_is_limited or claim.lane_is_watched or isinstance(outcome, Ended):
            self.look([(claim.lane, claim.pipeline)])

    def call_ended(self, call: CallEnd, end: LaneEnd | None) -> None:
        self._left.append(call)
        if end is not None:
            self._ends.append(end)
        self._wake.set()

    def look(self, queues: Iterable[LaneQueues]) -> None:
        self._queues.update(queues)
        if self._queues:
            self._wake.set()

    async def run_once(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        await self.flush()

    async def flush(self) -> None:
        """Report, give places back and look now: a lane that has to be parked is, before the next
        call gets a place."""
        try:
            await self._report()
        finally:
            await self._leave()
        queues, self._queues = self._queues, set()
        if not queues:
            return
        try:
            found = await look_at_lanes(self._fetch, queues)
        except Exception:
            self.look(queues)
            raise
        for pipeline, due_seconds in found:
            self._hear(pipeline, due_seconds)

    async def _leave(self) -> None:
        left, self._left = self._left, []
        if not left:
            return
        params = {
            "task_ids": number_array([call.task_id for call in left]),
            "attempts": number_array([call.attempt for call in left]),
            "numbers": number_array([call.number for call in left]),
        }
        crash_point("lanes.before_leave")
        try:
            await self._fetch("leave_lanes", params)
        except Exception:
            self._left = left + self._left
            self._wake.set()
            raise
        lanes = {call.lane for call in left}
        self.look((lane, None) for lane in lanes)
        for lane in lanes:
            self.on_left(lane)

    async def _report(self) -> None:
        ends, self._ends = self._ends[:MAX_ENDS], []
        if not ends:
            return
        params = {
            "lanes": text_array([end.lane for end in ends]),
            "ids": number_array([end.task_id for end in ends]),
            "verdicts": text_array([end.verdict for end in ends]),
            "seconds": number_array([end.park_seconds for end in ends]),
        }
        crash_point("lanes.before_report")
        try:
            await self._fetch("report_lanes", params)
        except Exception:
            self._ends = ends + self._ends
            self._wake.set()
            raise
