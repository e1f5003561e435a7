"""The demo's missions and faults, and the expected status and ads of each mission."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from regente.pipelines.missions.args import MissionArgs
from regente.services.sandbox.catalogue import Catalogue
from regente.services.sandbox.faults import Fault, FaultKind

SEED = 7
ADS_PER_CELL = 150
PROXIES = 6
WORKERS = 3
FIRST_DAY = date(2025, 1, 4)
DAYS = 12  # with the 13th, a day without ads
LANGUAGES = ("pt", "en")
PAGE_ATTEMPTS = 2

FAILED_ONCE = (FIRST_DAY + timedelta(days=1), "video")
THROTTLED = (FIRST_DAY + timedelta(days=2), "image")
SPOILED = (FIRST_DAY + timedelta(days=3), "video")
CHANGED_LAYOUT = (FIRST_DAY + timedelta(days=4), "image")

FAULTS = (
    Fault(kind=FaultKind.STUCK_SESSION, count=1),
    Fault(kind=FaultKind.PROXY_407, count=1),
    Fault(
        kind=FaultKind.UNAVAILABLE,
        day=FAILED_ONCE[0],
        format=FAILED_ONCE[1],
        path="/ads",
        count=PAGE_ATTEMPTS,
    ),
    Fault(
        kind=FaultKind.THROTTLED,
        day=THROTTLED[0],
        format=THROTTLED[1],
        path="/ads",
        count=1,
        retry_after=6,
    ),
    Fault(kind=FaultKind.SPOILED, day=SPOILED[0], format=SPOILED[1]),
    Fault(kind=FaultKind.LAYOUT, day=CHANGED_LAYOUT[0], format=CHANGED_LAYOUT[1], path="/ads"),
)

# Short intervals, and a lease short enough to show a takeover.
RUNNER_ENVIRONMENT = {
    "REGENTE_LOCK_TTL_MS": "3000",
    "REGENTE_HEARTBEAT_INTERVAL_MS": "500",
    "REGENTE_SWEEP_SECONDS": "1",
    "REGENTE_POLLING_SESSION": "0.5",
    "REGENTE_POLLING_JOB": "0.5",
    "REGENTE_POLLING_ORCHESTRATOR": "0.5",
    "REGENTE_TIMEOUT_SESSION": "20",
    "REGENTE_ERROR_BACKOFF": "0.5",
    "REGENTE_WATCH_SECONDS": "0.3",
    "REGENTE_OUTAGE_SECONDS": "20",
    "REGENTE_CANCEL_SECONDS": "5",
    "REGENTE_DRAIN_SECONDS": "2",
}
WORKER_ENVIRONMENT = {
    "REGENTE_WORKER_PHASE_SECONDS": "0.2",
    "REGENTE_WORKER_PAGE_DELAY_SECONDS": "0.1",
    "REGENTE_WORKER_STUCK_SECONDS": "3",
    "REGENTE_WORKER_PAGE_ATTEMPTS": str(PAGE_ATTEMPTS),
    "REGENTE_WORKER_BACKOFF_SECONDS": "0.2",
    "REGENTE_WORKER_THROTTLE_PATIENCE_SECONDS": "1",
    "REGENTE_WORKER_REQUEST_TIMEOUT_SECONDS": "10",
    "REGENTE_WORKER_REQUESTS_PER_MINUTE": "6000",
}


@dataclass(frozen=True, slots=True)
class Expectation:
    """The status that a mission must end with, and the ads that it must find."""

    status: str
    ads: frozenset[str]
    spoiled: bool = False


def demo_missions() -> list[MissionArgs]:
    return [
        MissionArgs(date_start=day, date_end=day, media_type=kind, languages=LANGUAGES)
        for day in (FIRST_DAY + timedelta(days=offset) for offset in range(DAYS))
        for kind in ("video", "image")
    ]


def expectation_of(mission: MissionArgs) -> Expectation:
    """The expected status and ads, computed from the catalogue and not from the services."""
    cell = (mission.date_start, mission.media_type)
    if cell == CHANGED_LAYOUT:
        return Expectation("failed", frozenset())
    ads = Catalogue(SEED, ADS_PER_CELL).ads(mission.request.filters)
    return Expectation("completed", frozenset(ad.id for ad in ads), spoiled=cell == SPOILED)
