"""What people do with lanes: see them, set their limits, park and open them."""

from __future__ import annotations

from typing import Any

from regente.engine.codec import encode
from regente.engine.database import ClientDatabase, ReadsRows
from regente.engine.errors import InvalidInput, NotFound
from regente.engine.lanes import LaneLimits, checked_lane, look_at_lanes
from regente.engine.log import current_request
from regente.engine.models import LaneInfo

MAX_PAGE = 1000
MAX_PARK_SECONDS = 366 * 86_400.0
MAX_REASON_CHARACTERS = 500

UNCHANGED: Any = object()


class LaneOperations:
    def __init__(self, database: ClientDatabase, reads: ReadsRows) -> None:
        self._database = database
        self._reads = reads

    async def list(
        self,
        *,
        pipeline: str | None = None,
        search: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[LaneInfo]:
        """By name. `after`, the last name of a page, gives the next page."""
        if search is not None:
            checked_lane(search)
        params = {
            "name": None,
            "pipeline": pipeline,
            "search": search,
            "after": after,
            "limit": max(1, min(limit, MAX_PAGE)),
        }
        return [LaneInfo(**row) for row in await self._reads.fetch_dicts("list_lanes", params)]

    async def show(self, name: str) -> LaneInfo:
        every = dict.fromkeys(("pipeline", "search", "after"))
        params = {**every, "name": checked_lane(name), "limit": 1}
        rows = await self._reads.fetch_dicts("list_lanes", params)
        if not rows:
            raise NotFound(f"there is no lane {name!r}")
        return LaneInfo(**rows[0])

    async def set(
        self,
        name: str,
        *,
        concurrency: int | None = UNCHANGED,
        rate: float | None = UNCHANGED,
        burst: int | None = UNCHANGED,
        min_rate: float | None = UNCHANGED,
        weight: int | None = UNCHANGED,
        breaker: int | None = UNCHANGED,
        pipeline: str | None = None,
        by: str | None = None,
    ) -> LaneInfo:
        """Set limits of a lane; None is the pipeline's default again. With `pipeline` a lane may be
        set before its first task."""
        given: dict[str, Any] = {
            "concurrency": concurrency,
            "rate": rate,
            "burst": burst,
            "min_rate": min_rate,
            "weight": weight,
            "breaker": breaker,
        }
        limits = {key: value for key, value in given.items() if value is not UNCHANGED}
        if not limits:
            raise InvalidInput(f"which limit of the lane? Known: {', '.join(given)}")
        LaneLimits(**limits)  # checks them
        params: dict[str, Any] = {
            "name": checked_lane(name),
            "pipeline": pipeline,
            "changes": encode(limits, what="the limits"),
            "details": _by(by),
        }
        await self._change("set_lane", name, params)
        return await self.show(name)

    async def park(
        self,
        name: str,
        *,
        seconds: float | None = None,
        reason: str = "by an operator",
        by: str | None = None,
    ) -> LaneInfo:
        """Start no more tasks of the lane for so many seconds, or until it is opened. Running tasks
        go on."""
        if seconds is not None and not 0 < seconds <= MAX_PARK_SECONDS:
            raise InvalidInput(f"a lane is parked for up to {MAX_PARK_SECONDS:,.0f} seconds")
        if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARACTERS:
            raise InvalidInput(f"a reason has up to {MAX_REASON_CHARACTERS} characters")
        encode(reason, what="the reason")
        params = {"name": name, "seconds": seconds, "reason": reason, "details": _by(by)}
        await self._change("park_lane", name, params)
        return await self.show(name)

    async def open(self, name: str, *, by: str | None = None) -> LaneInfo:
        """Start its tasks again at its full rate: not parked, its breaker closed."""
        await self._change("open_lane", name, {"name": name, "details": _by(by)})
        return await self.show(name)

    async def _change(self, statement: str, name: str, params: dict[str, Any]) -> None:
        checked_lane(name)
        if not await self._database.fetch(statement, params):
            raise NotFound(f"there is no lane {name!r}")
        await look_at_lanes(self._database.fetch, [(name, None)])


def _by(who: str | None) -> str:
    """The event's details: who did it, and by which request."""
    request = current_request.get()
    told = {"by": who, "request_id": request}
    return encode({key: value for key, value in told.items() if value}, what="who did it")
