"""The proxy that a mission failed through is avoided while another can be had, and no longer; a
proxy whose sessions fail, while others succeed, is blamed for failures of any kind."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.missions.queries import REPORTS
from regente.settings import Settings
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    config,
    events_of,
    finished,
    fleet_of,
    rows,
    until,
)
from tests.support.peers import ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

GOOD = "proxy.example.com:8000"  # proxy-1 of `conducting`
FAILED = {"status": "failed"}


class WorkerByProxy(ScriptedWorker):
    """Sessions through any proxy but the good one go wrong as told."""

    def __init__(self, wrong: str | int, name: str = "") -> None:
        super().__init__(name)
        self.wrong = wrong

    async def answer(self, request: Request, body: Any) -> Response:
        if (request.method, request.url.path) == ("POST", "/session"):
            bad = body["proxy"]["server"] != GOOD
            if bad and isinstance(self.wrong, int):
                self.proxies.append(body["proxy"])
                return JSONResponse({"error": "refused"}, self.wrong)
            self.session_script = [[{"status": self.wrong if bad else "ready"}]]
        return await super().answer(request, body)


async def fail_first_through_the_good_one(app: Regente) -> int:
    """A mission that waits for its retry, after a failure through proxy-1."""
    (mission_id,) = await app.missions.create([MISSION])
    await rows(
        app,
        "UPDATE mission_runs SET avoid_proxy_id = (SELECT id FROM proxies WHERE name = 'proxy-1'), "
        "avoid_since = clock() WHERE mission_id = %(id)s",
        id=mission_id,
    )
    await app.missions.queue([mission_id])
    return mission_id


@pytest.mark.parametrize("wrong", ["terminated", "disconnected", "asleep", 407, 451, 500])
@pytest.mark.parametrize("proxies", [2, 3])
async def test_a_mission_runs_again_through_its_last_proxy_when_no_other_starts(
    app: Regente, wrong: str | int, proxies: int
) -> None:
    """O4, O6, O15: a preference, not a condition: with one good proxy the retry goes through it."""
    worker = WorkerByProxy(wrong)
    async with fleet_of(app, worker, ScriptedWriter(), proxies=proxies):
        mission_id = await fail_first_through_the_good_one(app)
        async with runner_in(app):
            mission = await finished(app, mission_id, within_seconds=60.0)
    assert (mission.status, mission.proxy_used) == ("completed", "proxy-1")


@pytest.mark.parametrize("runners", [1, 2])
@pytest.mark.parametrize("session_limit", [1, 5])
async def test_missions_that_fail_once_through_the_only_good_proxy_are_completed(
    app: Regente, settings: Settings, runners: int, session_limit: int
) -> None:
    """O4, O6, O15: one worker, another proxy whose sessions are always terminated."""
    worker = WorkerByProxy("terminated")
    done = {"status": "completed", "ads_count": 3}
    worker.job_script = [[last] for _ in range(3) for last in (FAILED, done)]
    await app.missions.set("session_limit", session_limit)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(conducting(app, worker, ScriptedWriter(), proxies=2))
        for _ in range(runners - 1):
            other = Regente(app.database_url, settings=settings, pipelines=Registry())
            await stack.enter_async_context(other)
            other.conduct_missions()
            await stack.enter_async_context(runner_in(other))
        ids = await app.missions.create([MISSION] * 6, queue=True)
        ended = [await finished(app, one, within_seconds=60.0) for one in ids]
    assert {(mission.status, mission.proxy_used) for mission in ended} == {("completed", "proxy-1")}
    assert sum(mission.retry_count for mission in ended) == 3
    (bad,) = await rows(app, "SELECT active, fail_count FROM proxies WHERE name = 'proxy-2'")
    assert bad["fail_count"] >= 2


async def test_with_one_proxy_and_one_worker_a_mission_is_retried_through_it(app: Regente) -> None:
    """O4, O15."""
    worker = ScriptedWorker()
    worker.job_script = [[FAILED], [FAILED]]
    async with conducting(app, worker, ScriptedWriter(), proxies=1):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 2)


@pytest.mark.parametrize("wrong", ["terminated", "asleep", 400, 500])
async def test_a_proxy_whose_sessions_keep_failing_while_others_start_is_deactivated(
    app: Regente, wrong: str | int
) -> None:
    """O4: with any code; after three failures in a row, as for any other fault."""
    worker = WorkerByProxy(wrong)
    await app.missions.set("session_limit", 1)
    async with conducting(app, worker, ScriptedWriter(), proxies=2):
        for mission_id in await app.missions.create([MISSION] * 6, queue=True):
            mission = await finished(app, mission_id, within_seconds=60.0)
            assert (mission.status, mission.retry_count) == ("completed", 0)
    (bad, good) = await rows(app, "SELECT active, fail_count FROM proxies ORDER BY name DESC")
    assert (bad["active"], bad["fail_count"]) == (False, 3)
    assert (good["active"], good["fail_count"]) == (True, 0)
    assert sum(proxy["server"] != GOOD for proxy in worker.proxies) == 3


async def test_a_proxy_whose_sessions_keep_breaking_under_missions_is_blamed(app: Regente) -> None:
    """O4: ready at first and then disconnected, each time, while others bring missions home."""
    worker = BreaksUnderMissions("disconnected")
    await app.missions.set("session_limit", 1)
    async with conducting(app, worker, ScriptedWriter(), proxies=2):
        for mission_id in await app.missions.create([MISSION] * 8, queue=True):
            mission = await finished(app, mission_id, within_seconds=60.0)
            assert mission.status == "completed"
            assert mission.retry_count in (0, 1)
    (bad, good) = await rows(app, "SELECT active, fail_count FROM proxies ORDER BY name DESC")
    assert (bad["active"], bad["fail_count"]) == (False, 3)
    assert (good["active"], good["fail_count"]) == (True, 0)


async def test_the_report_counts_sessions_that_break_in_the_middle_of_a_scrape(
    app: Regente,
) -> None:
    """O18: each failure once, at the start and under a mission."""
    worker = ScriptedWorker()
    worker.session_script = [
        [{"status": "stuck"}],
        [{"status": "ready"}, {"status": "disconnected"}],
        [{"status": "ready"}, {"status": "stuck"}],
    ]
    worker.job_script = [[{"status": "running"}], [{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter(), proxies=2):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        assert (await finished(app, mission_id)).retry_count == 2
    report = await REPORTS.fetch_all(app.database, "problem_proxies", days=7)
    assert sum(row["session_failures"] for row in report) == 3
    assert sum(row["rotations"] for row in report) == 3


class BreaksUnderMissions(WorkerByProxy):
    """Sessions are ready through every proxy; a job in one through a bad proxy runs for ever, and
    its session breaks."""

    async def answer(self, request: Request, body: Any) -> Response:
        bad = bool(self.proxies) and self.proxies[-1]["server"] != GOOD
        if (request.method, request.url.path) == ("POST", "/session"):
            return await ScriptedWorker.answer(self, request, body)
        if (request.method, request.url.path) == ("POST", "/scrape") and bad:
            self.job_script = [[{"status": "running", "ads_count": 1}]]
            self.session = [{"status": self.wrong}]
        return await ScriptedWorker.answer(self, request, body)


@config(polling_session=0.02, error_backoff=0.005)
async def test_a_worker_that_fails_through_every_proxy_blames_none(app: Regente) -> None:
    """O4, F18: without a session that starts, it is not the proxies."""
    worker = ScriptedWorker()
    worker.session_script = [[{"status": "terminated"}] for _ in range(7)]
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        assert (await finished(app, mission_id)).status == "completed"
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0 OR NOT active") == []


async def test_a_retry_does_not_wait_beside_an_idle_worker_for_a_long_scrape(app: Regente) -> None:
    """O4, O7: the only other proxy is in use for long: the retry goes through the same one."""
    long, other = ScriptedWorker("long"), ScriptedWorker("other")
    long.gate.clear()
    async with fleet_of(app, long, ScriptedWriter(), proxies=2), runner_in(app):
        (first,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        async with fleet_of(app, other, proxies=0):
            other.job_script = [[FAILED]]
            (second,) = await app.missions.create([MISSION], queue=True)
            mission = await finished(app, second)
            assert (mission.status, mission.retry_count) == ("completed", 1)
            assert (await app.missions.get(first)).status == "running"
            long.gate.set()
            await finished(app, first)


async def test_newer_missions_do_not_overtake_a_retry_that_another_free_proxy_could_take(
    app: Regente,
) -> None:
    """O4, O7: the worker changes its proxy for the mission that has waited longest."""
    worker = ScriptedWorker()
    worker.gate.clear()
    async with conducting(app, worker, ScriptedWriter(), proxies=2):
        (first,) = await app.missions.create([MISSION], queue=True)
        used = (await until(app, "SELECT proxy_used FROM missions WHERE worker_job_id > ''"))[
            "proxy_used"
        ]
        retried, *newer = await app.missions.create([MISSION] * 4)
        await rows(
            app,
            "UPDATE mission_runs SET avoid_since = clock(), avoid_proxy_id = "
            "(SELECT id FROM proxies WHERE name = %(used)s) WHERE mission_id = %(id)s",
            used=used,
            id=retried,
        )
        await app.missions.queue([retried, *newer])
        worker.gate.set()
        ended = [await finished(app, one) for one in (first, retried, *newer)]
    assert {mission.status for mission in ended} == {"completed"}
    assert ended[1].proxy_used != used
    assert ended[1].started_at is not None
    assert all(
        mission.started_at > ended[1].started_at for mission in ended[2:] if mission.started_at
    )


async def test_a_retry_is_avoided_no_longer_than_a_session_takes_to_start(app: Regente) -> None:
    """O4: another worker is about to have another proxy ready, and never is."""
    ready, starting = ScriptedWorker("ready"), ScriptedWorker("starting")
    ready.gate.clear()
    starting.session_script = [[{"status": "warming_up"}]]
    async with fleet_of(app, ready, ScriptedWriter(), proxies=2), runner_in(app):
        (first,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        async with fleet_of(app, starting, proxies=0):
            await until(app, "SELECT FROM workers WHERE status = 'initializing'")
            (second,) = await app.missions.create([MISSION])
            await rows(
                app,
                "UPDATE mission_runs r SET avoid_proxy_id = p.id, avoid_since = clock() "
                "- interval '1 hour' FROM proxies p, workers w WHERE mission_id = %(id)s "
                "AND p.in_use_by_worker_id = w.id AND w.name = 'ready'",
                id=second,
            )
            await app.missions.queue([second])
            ready.gate.set()
            await finished(app, first)
            mission = await finished(app, second)
            assert (mission.status, mission.worker_name) == ("completed", "ready")
            assert "proxy_rotated" not in dict(await events_of(app, second))
            starting.session = [{"status": "ready"}]
