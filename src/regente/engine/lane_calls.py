"""Calls of attempts in lanes: each waits until its lane has room, and then holds a place in it
until it has ended, or until its attempt has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from regente.engine.crashpoints import crash_point
from regente.engine.database import FOREVER
from regente.engine.errors import LaneBusy, LeaseLost
from regente.engine.lane_watch import CallEnd, LaneWatch
from regente.engine.lanes import Fetch, Lane, LaneEnd, verdict_of_call
from regente.engine.task_store import Claim

LONGEST_WAIT_SECONDS = 30.0  # of a call with its task's slot; then the task waits in the queue
FIRST_LOOK_SECONDS = 0.02
LONGEST_LOOK_SECONDS = 0.5  # another runner's call may have left
BUSY_SECONDS = 5.0
MAX_OPENED = 10_000  # lanes that are known to have these limits
LONGEST_RETRY_SECONDS = 120.0  # a parked lane may be opened sooner

Beat = Callable[[], Awaitable[None]]


class Answer(NamedTuple):
    """What the database says to a call. `refused` tells why there is no place: `parked`, `probing`,
    `full`, `rate`; `was_asked` is False while another session has the lane locked."""

    is_held: bool
    is_known: bool
    was_asked: bool
    refused: str | None
    seconds: float | None
    parked_because: str | None
    running: int | None
    concurrency: int | None
    is_watched: bool

    @property
    def has_entered(self) -> bool:
        return self.was_asked and self.refused is None

    @property
    def wait_seconds(self) -> float:
        """How long there is certainly no place."""
        if self.seconds is not None:
            return self.seconds
        return FOREVER if self.refused == "parked" else 0.0


@dataclass(slots=True)
class Line:
    """The calls of this runner that wait for one lane: in turn, so that only the first one asks."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0


@dataclass(slots=True)
class LaneCall:
    """A call that holds a place."""

    claim: Claim
    number: int
    lane: str
    is_noted: bool = False
    """Whether the database knows that it waits."""
    is_watched: bool = False


class LaneCalls:
    """The calls of one registration's attempts."""

    def __init__(self, fetch: Fetch, runner_id: int, watch: LaneWatch) -> None:
        self._fetch = fetch
        self._runner_id = runner_id
        self._watch = watch
        self._lines: dict[str, Line] = {}
        self._opened: dict[tuple[str, str], Lane] = {}
        self._number = 0
        watch.on_left = self._left

    async def enter(
        self, claim: Claim, lane: Lane, longest_wait_seconds: float, beat: Beat
    ) -> LaneCall:
        """Wait for a place; raises `LaneBusy` when there is none in time."""
        self._number += 1
        call = LaneCall(claim, self._number, lane.name)
        give_up_at = time.monotonic() + min(LONGEST_WAIT_SECONDS, longest_wait_seconds)
        try:
            async with self._line(lane.name) as line:
                await self._wait(call, lane, line, give_up_at, beat)
        except BaseException:
            self._watch.call_ended(_end_of(call), None)
            raise
        return call

    async def leave(self, call: LaneCall, error: BaseException | None) -> None:
        """The call has ended, with this error or none. Its place is free after the next commit,
        or when its attempt ends: a lane that has to be parked or slowed down is told before."""
        claim, end = call.claim, None
        verdict, park_seconds = verdict_of_call(error)
        is_bad = verdict in ("failed", "blocked", "throttled")
        if call.is_watched or is_bad:
            end = LaneEnd(call.lane, claim.pipeline, claim.id, verdict, park_seconds)
        self._watch.call_ended(_end_of(call), end)
        if is_bad:
            with contextlib.suppress(Exception):  # the watch tries again
                await self._watch.flush()

    @contextlib.asynccontextmanager
    async def _line(self, name: str) -> AsyncIterator[Line]:
        line = self._lines.setdefault(name, Line())
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[name]

    async def _wait(
        self, call: LaneCall, lane: Lane, line: Line, give_up_at: float, beat: Beat
    ) -> None:
        try:
            async with asyncio.timeout_at(_loop_time(give_up_at)):
                await line.turn.acquire()
        except TimeoutError:
            raise _busy(call.lane, None) from None
        try:
            look_seconds = FIRST_LOOK_SECONDS
            while not (answer := await self._ask(call, lane, line)).has_entered:
                await beat()
                left_seconds = give_up_at - time.monotonic()
                if answer.wait_seconds > left_seconds or left_seconds <= 0:
                    raise _busy(call.lane, answer)
                wait_seconds = max(answer.wait_seconds, look_seconds)
                await _news_within(line.news, min(wait_seconds, left_seconds))
                look_seconds = min(look_seconds * 2, LONGEST_LOOK_SECONDS)
            call.is_watched = answer.is_watched
        finally:
            line.turn.release()

    async def _ask(self, call: LaneCall, lane: Lane, line: Line) -> Answer:
        line.news.clear()
        claim = call.claim
        params = {
            "lane": lane.name,
            "task_id": claim.id,
            "attempt": claim.attempt,
            "runner_id": self._runner_id,
            "number": call.number,
            "is_noted": call.is_noted,
        }
        if self._opened.get((claim.pipeline, lane.name)) != lane:
            await self._open(claim.pipeline, lane)
        answer = Answer(*(await self._fetch("enter_lane", params))[0])
        if not answer.is_held:
            raise LeaseLost(f"task {claim.id} was taken over")
        if not answer.is_known:  # it was not used for a week, and forgotten
            await self._open(claim.pipeline, lane)
        call.is_noted |= answer.refused is not None
        if answer.has_entered:
            crash_point("lanes.entered")
        return answer

    async def _open(self, pipeline: str, lane: Lane) -> None:
        limits = None if lane.limits is None else json.dumps(asdict(lane.limits))
        params = {"lane": lane.name, "pipeline": pipeline, "defaults": limits}
        await self._fetch("open_lane_for_calls", params)
        if len(self._opened) >= MAX_OPENED:
            self._opened.clear()
        self._opened[pipeline, lane.name] = lane

    def _left(self, name: str) -> None:
        """A place of this lane is free."""
        line = self._lines.get(name)
        if line is not None:
            line.news.set()


def _end_of(call: LaneCall) -> CallEnd:
    return CallEnd(call.lane, call.claim.id, call.claim.attempt, call.number)


def _busy(name: str, answer: Answer | None) -> LaneBusy:
    refused = None if answer is None else answer.refused
    is_parked = refused in ("parked", "probing")
    wait_seconds = 0.0 if answer is None else answer.wait_seconds
    # Those that wait for the same lane do not come back at the same moment.
    retry_seconds = max(BUSY_SECONDS, min(wait_seconds, LONGEST_RETRY_SECONDS))
    retry_seconds *= random.uniform(1.0, 1.5)  # noqa: S311 - spreads load, hides nothing
    return LaneBusy(
        f"the lane {name} {_because(answer)}", retry_after=retry_seconds, is_parked=is_parked
    )


def _because(answer: Answer | None) -> str:
    match None if answer is None else answer.refused:
        case "parked":
            assert answer is not None
            return f"is parked: {answer.parked_because}"
        case "probing":
            return "has failed and is tried with one call"
        case "full":
            assert answer is not None
            return f"is full: {answer.running} of {answer.concurrency} running"
        case "rate":
            return "starts no more calls in this time"
        case _:
            return "has other calls before this one"


def _loop_time(at: float) -> float:
    return asyncio.get_running_loop().time() + at - time.monotonic()


async def _news_within(news: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
