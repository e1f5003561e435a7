"""The network between a runner and its worker or writer is cut in one direction or both (F6;
O8, O10, O14, O15). What was under way arrives when it heals, long after it was given up."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import pytest

from tests.pipelines.missions.conftest import rows
from tests.pipelines.missions.faults.conftest import Environment, missions_on
from tests.pipelines.missions.faults.peers import JobScript
from tests.support.eventually import eventually_async
from tests.support.network import BOTH, Direction, Network, network_to_http
from tests.support.peers import API_KEY, stored

CUTS = {
    "both ways": BOTH,
    "to the peer": (Direction.TO_SERVER,),
    "from the peer": (Direction.TO_CLIENT,),
}
GAVE_UP = """
SELECT FROM events
WHERE event IN ('session_failed', 'mission_returned', 'writer_failed', 'worker_error',
                'writer_rests')
"""
QUICK_TIMEOUT = {"http_timeout": 0.5, "outage_seconds": 1.0}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("knows_keys", [True, False])
@pytest.mark.parametrize("moment", ["in its session", "at its job"])
async def test_a_worker_that_is_cut_off_does_nothing_twice(
    moment: str, knows_keys: bool, cut: str, env: Environment
) -> None:
    """F6, O8, O14, O15: before or while it scrapes; no try is charged, and no two jobs overlap,
    also when its session knows no keys and says `ready` while its job runs."""
    env.worker.knows_keys = env.worker.tells_scraping = knows_keys
    env.worker.script_of = lambda _: JobScript(1.0)
    async with network_before(env, "worker") as network:
        await env.app.missions.create(missions_on(2), queue=True)
        env.runner(**QUICK_TIMEOUT)
        reached = (
            (lambda: env.worker.span) if moment == "in its session" else lambda: env.worker.watched
        )
        await eventually_async(holds(reached))
        network.cut(*CUTS[cut])
        await eventually_async(lambda: gave_up(env))
        network.heal()
        await env.all_ended()
        await env.at_rest()
    assert await outcomes(env) == [("completed", 0)] * 2
    assert env.worker.overlapping == []
    assert len(stored_scrapes(env)) == len(set(stored_scrapes(env))) == 2


@pytest.mark.parametrize("cut", CUTS)
async def test_a_writer_that_is_cut_off_stores_each_result_once(cut: str, env: Environment) -> None:
    """F6, O10, O15: it is asked for its job until it answers: no try is charged."""
    env.writer.script_of = lambda _: JobScript(1.0, stored(3))
    async with network_before(env, "writer") as network:
        await env.app.missions.create(missions_on(2), queue=True)
        env.runner(**QUICK_TIMEOUT)
        await eventually_async(holds(lambda: env.writer.created))
        network.cut(*CUTS[cut])
        await eventually_async(lambda: gave_up(env))
        network.heal()
        await env.all_ended()
        await env.at_rest()
    assert await outcomes(env) == [("completed", 0)] * 2
    assert sorted(stored_scrapes(env)) == sorted(env.worker.watched)
    assert len(stored_scrapes(env)) == 2


@contextlib.asynccontextmanager
async def network_before(
    env: Environment, kind: Literal["worker", "writer"]
) -> AsyncIterator[Network]:
    """The peer's registered address leads through it."""
    peer = env.worker if kind == "worker" else env.writer
    (member,) = await env.app.fleet.members(kind)
    with network_to_http(peer.url) as (network, url):
        await env.app.fleet.edit(kind, member.id, {"url": url, "api_key": API_KEY})
        yield network


def holds(condition: Callable[[], object]) -> Callable[[], Awaitable[bool]]:
    async def held() -> bool:
        return bool(condition())

    return held


async def gave_up(env: Environment) -> bool:
    """Whether the runner has stopped waiting for the peer."""
    return bool(await rows(env.app, GAVE_UP))


async def outcomes(env: Environment) -> list[tuple[str, int]]:
    return [(mission.status, mission.retry_count) for mission in await env.app.missions.find()]


def stored_scrapes(env: Environment) -> list[str]:
    """The scrape job of each job of the writer."""
    return [job.scrape_id for job in env.writer.watched.values()]
