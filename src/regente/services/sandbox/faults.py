"""Injected faults: which requests each one matches, how often, and its parameters."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator


class FaultKind(StrEnum):
    THROTTLED = "throttled"
    """429 with Retry-After."""
    UNAVAILABLE = "unavailable"
    """5xx."""
    BLOCKED = "blocked"
    """403."""
    HANG = "hang"
    """No response until the client disconnects."""
    DRIP = "drip"
    """The response comes in small pieces over `seconds`."""
    TRUNCATED = "truncated"
    """Half of the page or JSON, in a response that looks complete."""
    CUT_OFF = "cut_off"
    """The connection closes in the middle of the response."""
    LAYOUT = "layout"
    """The same ads in different markup."""
    REPEATS = "repeats"
    """Each page begins with the last ads of the page before it."""
    MISSING = "missing"
    """Each page leaves out its last ad."""
    SPOILED = "spoiled"
    """The first ad of each page has an impossible date."""
    STUCK_SESSION = "stuck_session"
    """Sessions opened while the fault is active hang at every page."""
    PROXY_407 = "proxy_407"
    PROXY_451 = "proxy_451"
    PROXY_RESET = "proxy_reset"
    PROXY_REFUSED = "proxy_refused"
    PROXY_HANG = "proxy_hang"


PROXY_KINDS = frozenset(kind for kind in FaultKind if kind.startswith("proxy_"))


class Fault(BaseModel):
    """A fault and its scope: omitted fields match all; without `count` it stays until cleared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind
    proxy: str | None = Field(None, description="only through the proxy with this name")
    day: date | None = Field(None, description="only when the filter's range contains this day")
    format: str | None = None
    language: str | None = None
    path: str | None = Field(
        None, description="only on this path of the library: /ads, /session, …"
    )
    from_page: int | None = Field(None, ge=1, description="only from this page on")
    count: int | None = Field(None, ge=1)
    chance: float = Field(1.0, gt=0, le=1)
    status: int = Field(503, ge=500, le=599)
    retry_after: float = Field(30.0, ge=0)
    seconds: float = Field(5.0, ge=0, le=3600)

    @model_validator(mode="after")
    def _countable(self) -> Fault:
        if self.kind is FaultKind.PROXY_REFUSED and (self.count is not None or self.chance < 1):
            raise ValueError(
                "a refused connection is never seen: proxy_refused has neither count nor "
                "chance, clear it instead"
            )
        if self.kind in PROXY_KINDS and self.narrows_the_filter():
            raise ValueError(
                f"{self.kind} applies before the filter is known: it is scoped by proxy, "
                "count and chance only"
            )
        return self

    def narrows_the_filter(self) -> bool:
        return any(
            value is not None
            for value in (self.day, self.format, self.language, self.path, self.from_page)
        )


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """The parts of a request that the library or the proxy can see."""

    proxy: str | None
    path: str | None = None
    first_day: date | None = None
    last_day: date | None = None
    format: str | None = None
    languages: frozenset[str] = frozenset()
    page: int | None = None


@dataclass(slots=True)
class _ActiveFault:
    fault: Fault
    left: int | None


class FaultInjector:
    """The active faults in the order in which they were added; the first match applies."""

    def __init__(self, seed: int = 1) -> None:
        self._active: dict[int, _ActiveFault] = {}
        self._ids = itertools.count(1)
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._watchers: list[Callable[[], None]] = []
        self.struck: dict[FaultKind, int] = dict.fromkeys(FaultKind, 0)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every change."""
        self._watchers.append(watcher)

    def add(self, fault: Fault) -> int:
        fault_id = next(self._ids)
        self._active[fault_id] = _ActiveFault(fault, fault.count)
        self._notify()
        return fault_id

    def clear(self, fault_id: int | None = None) -> int:
        """Remove one fault, or all of them; return how many were removed."""
        removed = (
            [fault_id]
            if fault_id in self._active
            else []
            if fault_id is not None
            else list(self._active)
        )
        for one in removed:
            del self._active[one]
        self._notify()
        return len(removed)

    def active(self) -> dict[int, Fault]:
        return {fault_id: active_fault.fault for fault_id, active_fault in self._active.items()}

    def refuses(self, proxy: str) -> bool:
        return any(
            fault.kind is FaultKind.PROXY_REFUSED and fault.proxy in (None, proxy)
            for fault in self.active().values()
        )

    def take_match(self, observed: ObservedRequest, *, by_proxy: bool) -> Fault | None:
        """Return the first fault that matches the request, and use up one of its `count`."""
        for fault_id, active_fault in list(self._active.items()):
            fault = active_fault.fault
            if fault.kind is FaultKind.PROXY_REFUSED or (fault.kind in PROXY_KINDS) is not by_proxy:
                continue
            if _matches(fault, observed) and (
                fault.chance == 1 or self._random.random() < fault.chance
            ):
                self._use_up(fault_id, active_fault)
                return fault
        return None

    def _use_up(self, fault_id: int, active_fault: _ActiveFault) -> None:
        self.struck[active_fault.fault.kind] += 1
        if active_fault.left is None:
            return
        active_fault.left -= 1
        if active_fault.left == 0:
            del self._active[fault_id]

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher()


_ONLY_ON = {
    FaultKind.STUCK_SESSION: "/session",
    FaultKind.REPEATS: "/ads",
    FaultKind.MISSING: "/ads",
    FaultKind.SPOILED: "/ads",
}


def _matches(fault: Fault, seen: ObservedRequest) -> bool:
    return (
        _ONLY_ON.get(fault.kind, seen.path) == seen.path
        and fault.path in (None, seen.path)
        and fault.proxy in (None, seen.proxy)
        and fault.format in (None, seen.format)
        and (fault.language is None or fault.language in seen.languages)
        and _covers_day(fault, seen)
        and (fault.from_page is None or (seen.page or 0) >= fault.from_page)
    )


def _covers_day(fault: Fault, seen: ObservedRequest) -> bool:
    if fault.day is None:
        return True
    if seen.first_day is None or seen.last_day is None:
        return False
    return seen.first_day <= fault.day <= seen.last_day
