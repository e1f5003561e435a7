"""Every crash point of the missions × SIGKILL × restart: the end is as without the crash."""

from __future__ import annotations

import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

import regente.pipelines.missions
from tests.pipelines.missions.faults.conftest import Environment, missions_on
from tests.pipelines.missions.faults.peers import FOREVER, JobScript
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

Act = Callable[[Environment], None]
Provoke = Callable[[Environment], Awaitable[None]]


def nothing(env: Environment) -> None:
    """Most crash points are on the way of any mission."""


async def wait(env: Environment) -> None:
    """Most processes get there without help."""


@dataclass(frozen=True)
class Scenario:
    prepare: Act = nothing
    provoke: Provoke = wait
    passage: int = 1
    scrapes: int = MISSIONS
    storages: int = MISSIONS
    statuses: tuple[str, ...] = ("completed",) * MISSIONS
    max_retries: int = 2


def first_session_is_stuck(env: Environment) -> None:
    scripts = [["stuck"]]
    env.worker.states_of = lambda: scripts.pop() if scripts else ["ready"]


def first_scrape_fails(env: Environment) -> None:
    scripts = [JobScript(0.1, {"status": "failed"})]
    env.worker.script_of = lambda _: scripts.pop() if scripts else JobScript()


def first_session_breaks(env: Environment) -> None:
    scripts = [JobScript(0.1, {"status": "session stuck"})]
    env.worker.script_of = lambda _: scripts.pop() if scripts else JobScript()


def first_storage_fails(env: Environment) -> None:
    scripts = [JobScript(0.05, stored(0, status="failed", error="told to"))]
    env.writer.script_of = lambda _: scripts.pop() if scripts else JobScript(0.05, stored(3))


def first_storage_is_refused(env: Environment) -> None:
    env.writer.fault("POST", "/process", 503)


def first_scrape_is_throttled(env: Environment) -> None:
    answer = lambda: JSONResponse({}, 429, {"Retry-After": "0.2"})  # noqa: E731
    env.worker.fault_with("POST", "/scrape", answer)


def first_scrape_goes_on_for_ever(env: Environment) -> None:
    scripts = [JobScript(FOREVER)]
    env.worker.script_of = lambda _: scripts.pop() if scripts else JobScript()


async def cancel_the_first(env: Environment) -> None:
    async def scraping() -> bool:
        return bool(env.worker.running)

    await eventually_async(scraping)
    await env.app.missions.cancel((await env.app.missions.ids())[0])


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
    "writer.left": Scenario(first_storage_is_refused),
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
    """F2: each new crash point needs a scenario."""
    assert set(POINTS) == set(SCENARIOS)


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_at_a_crash_point_loses_and_doubles_nothing(
    point: str, env: Environment
) -> None:
    """F2, O14: SIGKILL there, restart by another process; peers count one job per attempt."""
    await crash_and_recover(env, point, SCENARIOS[point])
    check_exactly_once(env, SCENARIOS[point])


@pytest.mark.parametrize("variant", sorted(VARIANTS))
async def test_a_crash_in_a_rare_situation_loses_and_doubles_nothing(
    variant: str, env: Environment
) -> None:
    """F2, O14: the same crash points in rarer code paths."""
    point, scenario = VARIANTS[variant]
    await crash_and_recover(env, point, scenario)
    check_exactly_once(env, scenario)


@pytest.mark.parametrize(
    "point",
    [point for point in POINTS if point.startswith("scrape.") or point == "mission.called_off"],
)
@pytest.mark.parametrize("tells_scraping", [True, False])
async def test_a_worker_that_knows_no_keys_never_runs_two_jobs_at_once(
    point: str, tells_scraping: bool, env: Environment
) -> None:
    """F2, O14: its job cannot be found by key, so it is stopped before the next is sent, also when
    its session says `ready`."""
    env.worker.knows_keys, env.worker.tells_scraping = False, tells_scraping
    env.worker.script_of = lambda _: JobScript(1.5)
    await crash_and_recover(env, point, SCENARIOS[point])
    assert len(env.worker.watched) <= SCENARIOS[point].scrapes + 1
    assert len(env.writer.created) == SCENARIOS[point].storages


async def crash_and_recover(env: Environment, point: str, scenario: Scenario) -> None:
    scenario.prepare(env)
    await env.app.missions.set("max_retries", scenario.max_retries)
    await env.app.missions.create(missions_on(MISSIONS), queue=True)
    crashing = env.runner(REGENTE_CRASH_POINT=f"{point}:{scenario.passage}")
    await scenario.provoke(env)
    assert await env.ended(crashing) == -signal.SIGKILL, (
        f"{point} was never hit:\n{crashing.said()}"
    )
    env.expire_leases()
    env.runner()
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == list(scenario.statuses)
    assert env.worker.overlapping == []
    assert [span for span in env.worker.spans if span.replaced] == [], (
        "a session was left open when its proxy was freed"
    )


def check_exactly_once(env: Environment, scenario: Scenario) -> None:
    assert len(env.worker.watched) == scenario.scrapes
    assert len(env.writer.created) == scenario.storages
