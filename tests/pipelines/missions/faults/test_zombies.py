"""A runner frozen past its lease at a crash point sends nothing to peers when it wakes up (F5)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.pipelines.missions.faults.conftest import (
    LEASE_SECONDS,
    SHORT_LEASE,
    Environment,
    missions_on,
)
from tests.pipelines.missions.faults.runner_processes import RunnerProcess
from tests.pipelines.missions.faults.test_every_crash_point import (
    MISSIONS,
    POINTS,
    SCENARIOS,
    check_exactly_once,
)
from tests.support.eventually import eventually_async

ASKING = "GET"
ABOUT_TO_SPEAK = (
    "session.reserved",
    "session.ready",
    "scrape.intended",
    "scrape.stored",
    "writer.intended",
    "mission.returned",
)
WHILE_STORING = ("scrape.stored", "writer.intended")


def test_these_are_crash_points() -> None:
    assert set(ABOUT_TO_SPEAK) <= set(POINTS)


@pytest.mark.parametrize("point", ABOUT_TO_SPEAK)
async def test_a_zombie_sends_no_command_to_a_peer(point: str, env: Environment) -> None:
    """F5, O7, O14: it wakes up right before a call to a peer that another runner owns now."""
    scenario = SCENARIOS[point]
    scenario.prepare(env)
    await env.app.missions.create(missions_on(MISSIONS), queue=True)
    zombie = env.runner(REGENTE_CRASH_POINT=point, REGENTE_CRASH_SIGNAL="SIGSTOP", **SHORT_LEASE)
    await scenario.provoke(env)
    await until(lambda: is_frozen(zombie))
    lease_is_over_at = time.monotonic() + LEASE_SECONDS
    env.expire_leases()
    env.runner()
    await env.all_ended()
    await env.at_rest()
    await until(lambda: time.monotonic() > lease_is_over_at)
    before = commands(env, point)
    zombie.send(signal.SIGCONT)
    await until(lambda: is_registered_anew(env, zombie))
    zombie.send(signal.SIGTERM)
    assert await env.ended(zombie) == 0
    assert commands(env, point) == before
    await env.at_rest()
    assert await env.statuses() == list(scenario.statuses)
    check_exactly_once(env, scenario)


@pytest.mark.parametrize("passage", [4, 8])
async def test_a_zombie_does_not_keep_its_locks(passage: int, env: Environment) -> None:
    """F5, O7, O14: frozen before a commit, it holds row locks that other runners need."""
    await env.app.missions.create(missions_on(MISSIONS), queue=True)
    crash_point = f"transaction.before_commit:{passage}"
    zombie = env.runner(
        REGENTE_CRASH_POINT=crash_point, REGENTE_CRASH_SIGNAL="SIGSTOP", **SHORT_LEASE
    )
    await until(lambda: is_frozen(zombie))
    env.expire_leases()
    env.runner()
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == ["completed"] * MISSIONS
    assert (len(env.worker.watched), len(env.writer.created)) == (
        MISSIONS,
        MISSIONS,
    )


async def until(happened: Callable[[], bool]) -> None:
    async def asked() -> bool:
        return happened()

    await eventually_async(asked)


def is_frozen(process: RunnerProcess) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_registered_anew(env: Environment, process: RunnerProcess) -> bool:
    with psycopg.connect(env.app.database_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE status = 'running') FROM "
            "regente.runners WHERE pid = %s",
            (process.pid,),
        ).fetchone()
    return found is not None and found[0] >= 2 and found[1] == 1


def commands(env: Environment, point: str) -> list[tuple[str, str]]:
    """Every call that changes a peer's state, without polls. While a mission is stored, the driver
    starts the next one: the freeze may find that call half sent, and it is sent to its end."""
    peers = [env.writer] if point in WHILE_STORING else [env.worker, env.writer]
    calls = [call for peer in peers for call in peer.calls]
    return [(method, path) for method, path in calls if method != ASKING]
