"""Every named crash point of the missions × SIGKILL × restart by another process: the end is the
same as without the crash."""

from __future__ import annotations

import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

import regente.pipelines.missions
from tests.pipelines.missions.faults.conftest import Theatre, missions_on
from tests.pipelines.missions.faults.peers import FOREVER, Fate
from tests.support.eventually import eventually_async
from tests.support.peers import stored

MISSIONS = 2
SOURCE = Path(regente.pipelines.missions.__file__).parent
POINTS = sorted(
    {
        name
        for file in SOURCE.glob("*.py")
        for name in re.findall(r'crash_point\("([\w.]+)"\)', file.read_text())
    }
)

Act = Callable[[Theatre], None]
Provoke = Callable[[Theatre], Awaitable[None]]


def nothing(theatre: Theatre) -> None:
    """Most points lie on the way of any mission."""


async def wait(theatre: Theatre) -> None:
    """Most orchestrators get there by themselves."""


@dataclass(frozen=True)
class Scenario:
    prepare: Act = nothing
    provoke: Provoke = wait
    passage: int = 1
    scrapes: int = MISSIONS
    storages: int = MISSIONS
    statuses: tuple[str, ...] = ("completed",) * MISSIONS
    max_retries: int = 2


def first_session_is_stuck(theatre: Theatre) -> None:
    scripts = [["stuck"]]
    theatre.worker.states_of = lambda: scripts.pop() if scripts else ["ready"]


def first_scrape_fails(theatre: Theatre) -> None:
    fates = [Fate(0.1, {"status": "failed"})]
    theatre.worker.fate_of = lambda _: fates.pop() if fates else Fate()


def first_session_breaks(theatre: Theatre) -> None:
    fates = [Fate(0.1, {"status": "session stuck"})]
    theatre.worker.fate_of = lambda _: fates.pop() if fates else Fate()


def first_storage_fails(theatre: Theatre) -> None:
    fates = [Fate(0.05, stored(0, status="failed", error="told to"))]
    theatre.writer.fate_of = lambda _: fates.pop() if fates else Fate(0.05, stored(3))


def first_scrape_is_throttled(theatre: Theatre) -> None:
    answer = lambda: JSONResponse({}, 429, {"Retry-After": "0.2"})  # noqa: E731
    theatre.worker.fault_with("POST", "/scrape", answer)


def first_scrape_goes_on_for_ever(theatre: Theatre) -> None:
    fates = [Fate(FOREVER)]
    theatre.worker.fate_of = lambda _: fates.pop() if fates else Fate()


async def cancel_the_first(theatre: Theatre) -> None:
    async def scraping() -> bool:
        return bool(theatre.worker.running)

    await eventually_async(scraping)
    await theatre.app.missions.cancel((await theatre.app.missions.ids())[0])


CALLED_OFF = Scenario(
    first_scrape_goes_on_for_ever,
    cancel_the_first,
    scrapes=2,
    storages=1,
    statuses=("canceled", "completed"),
)
SCENARIOS = {
    **dict.fromkeys(
        ["session.reserved", "session.asked", "session.ready", "session.deleted", "session.ended"],
        Scenario(),
    ),
    **dict.fromkeys(
        [
            "mission.assigned",
            "scrape.intended",
            "scrape.accepted",
            "scrape.recorded",
            "scrape.stored",
        ],
        Scenario(),
    ),
    **dict.fromkeys(
        ["writer.intended", "writer.accepted", "writer.recorded", "writer.stored"], Scenario()
    ),
    "session.failed": Scenario(first_session_is_stuck),
    "mission.scrape_failed": Scenario(first_scrape_fails, scrapes=3),
    "mission.storage_failed": Scenario(first_storage_fails, storages=3),
    "mission.returned": Scenario(first_scrape_is_throttled),
    "mission.called_off": CALLED_OFF,
}
VARIANTS = {
    "the second mission": ("scrape.accepted", Scenario(passage=2)),
    "a broken session": ("mission.scrape_failed", Scenario(first_session_breaks, scrapes=3)),
    "a broken session, before it is ended": (
        "session.deleted",
        Scenario(first_session_breaks, scrapes=3),
    ),
    "no retry is left": (
        "mission.scrape_failed",
        Scenario(
            first_scrape_fails,
            scrapes=2,
            storages=1,
            statuses=("failed", "completed"),
            max_retries=0,
        ),
    ),
    "no retry is left for storage": (
        "mission.storage_failed",
        Scenario(first_storage_fails, storages=2, statuses=("failed", "completed"), max_retries=0),
    ),
}


def test_every_crash_point_has_a_scenario() -> None:
    """F2: a new crash point without a scenario proves nothing."""
    assert set(POINTS) == set(SCENARIOS)


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_there_loses_and_doubles_nothing(point: str, theatre: Theatre) -> None:
    """F2, O14: SIGKILL at this very point, restart by another process; one job for each attempt,
    counted by the peers."""
    await crash_and_recover(theatre, point, SCENARIOS[point])
    check_exactly_once(theatre, SCENARIOS[point])


@pytest.mark.parametrize("variant", sorted(VARIANTS))
async def test_a_crash_in_a_corner_loses_and_doubles_nothing(
    variant: str, theatre: Theatre
) -> None:
    """F2, O14: the same points on their less travelled roads."""
    point, scenario = VARIANTS[variant]
    await crash_and_recover(theatre, point, scenario)
    check_exactly_once(theatre, scenario)


@pytest.mark.parametrize(
    "point",
    [point for point in POINTS if point.startswith("scrape.") or point == "mission.called_off"],
)
async def test_a_worker_that_knows_no_keys_never_runs_two_jobs_at_once(
    point: str, theatre: Theatre
) -> None:
    """F2, O14: what it does cannot be asked for by name, so it is stopped before anything is sent
    again."""
    theatre.worker.knows_keys = False
    await crash_and_recover(theatre, point, SCENARIOS[point])
    assert len(theatre.worker.watched) <= SCENARIOS[point].scrapes + 1
    assert len(theatre.writer.created) == SCENARIOS[point].storages


async def crash_and_recover(theatre: Theatre, point: str, scenario: Scenario) -> None:
    scenario.prepare(theatre)
    await theatre.app.missions.set("max_retries", scenario.max_retries)
    await theatre.app.missions.create(missions_on(MISSIONS), queue=True)
    doomed = theatre.orchestrator(REGENTE_CRASH_POINT=f"{point}:{scenario.passage}")
    await scenario.provoke(theatre)
    assert await theatre.ended(doomed) == -signal.SIGKILL, (
        f"{point} was never hit:\n{doomed.said()}"
    )
    theatre.expire_leases()
    theatre.orchestrator()
    await theatre.all_ended()
    await theatre.at_rest()
    assert await theatre.statuses() == list(scenario.statuses)
    assert theatre.worker.overlapping == []
    assert [span for span in theatre.worker.spans if span.replaced] == [], (
        "a session was left open when its proxy was freed"
    )


def check_exactly_once(theatre: Theatre, scenario: Scenario) -> None:
    assert len(theatre.worker.watched) == scenario.scrapes
    assert len(theatre.writer.created) == scenario.storages
