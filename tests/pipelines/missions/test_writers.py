"""Writers have health: a failing one rests and is tried again, a mission goes to another one
meanwhile or waits, and a job that one writer may have is not given to another without asking."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from regente import Regente
from regente.fleet.read_models import WriterInfo
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
from tests.support.eventually import eventually_async
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

ALWAYS = 1_000_000
FORGOTTEN = "/status/.*"
ANY = [("GET", "/.*"), ("POST", "/.*")]


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


ANSWERS: dict[str, Any] = {
    "hanging": lambda: StreamingResponse(never()),
    "500": lambda: Response(status_code=500),
    "503": lambda: Response(status_code=503),
    "404": lambda: JSONResponse({"error": "not found"}, 404),
    "garbage": lambda: PlainTextResponse("<html>It works!</html>"),
    "other JSON": lambda: JSONResponse({"hello": "world"}),
    "401": lambda: JSONResponse({"error": "wrong key"}, 401),
}


def dead(how: str) -> ScriptedWriter:
    writer = ScriptedWriter("dead")
    for call in ANY:
        writer.fault_with(*call, ANSWERS[how], times=ALWAYS)
    return writer


def alive(writer: ScriptedWriter) -> None:
    writer.faults.clear()


async def writer_named(app: Regente, name: str) -> WriterInfo:
    (found,) = [one for one in await app.fleet.members("writer") if one.name == name]
    assert isinstance(found, WriterInfo)
    return found


async def retried(app: Regente) -> list[str]:
    found = await rows(app, "SELECT details FROM events WHERE event = 'retry_triggered'")
    return [row["details"]["error_code"] for row in found]


@config(http_timeout=1.0)
@pytest.mark.parametrize("how", ["refusing", *ANSWERS])
async def test_beside_a_dead_writer_every_mission_is_stored_without_a_charge(
    app: Regente, how: str
) -> None:
    """O10, O15: the writer's fault costs no mission a retry while another one is healthy."""
    good = ScriptedWriter("good")
    await app.missions.set("max_retries", 0)
    others = [] if how == "refusing" else [dead(how)]
    async with fleet_of(app, ScriptedWorker(), good, *others):
        if how == "refusing":
            await app.fleet.add_writer("dead", "http://127.0.0.1:9", API_KEY)
        async with runner_in(app):
            ids = await app.missions.create([MISSION] * 10, queue=True)
            ended = [await finished(app, one, within_seconds=60.0) for one in ids]
    assert {(mission.status, mission.retry_count) for mission in ended} == {("completed", 0)}
    assert len(good.created) == 10
    failing = await writer_named(app, "dead")
    assert failing.active is (how != "401")
    assert failing.error_message
    assert failing.error_code in ("ERROR300", "ERROR301", "ERROR302")
    assert failing.status == ("inactive" if how == "401" else "resting")


async def test_beside_a_writer_whose_jobs_all_fail_every_mission_is_stored(app: Regente) -> None:
    """O10, O15: `failed` costs the retry that 7.2 says, and the retry goes to another writer."""
    bad, good = ScriptedWriter("bad"), ScriptedWriter("good")
    bad.default_job = [{"status": "failed"}]
    async with conducting(app, ScriptedWorker(), bad, good):
        ids = await app.missions.create([MISSION] * 12, queue=True)
        ended = [await finished(app, one, within_seconds=60.0) for one in ids]
    assert {mission.status for mission in ended} == {"completed"}
    assert set(await retried(app)) <= {"ERROR300"}
    assert len(good.created) == 12
    assert max(mission.retry_count for mission in ended) <= 1


async def test_two_failed_jobs_fail_the_mission_also_with_two_writers(app: Regente) -> None:
    """O10, O15: a job that fails is tried again at most once (5.3)."""
    one, other = ScriptedWriter("one"), ScriptedWriter("other")
    one.default_job = other.default_job = [{"status": "failed", "error": "no space left"}]
    async with conducting(app, ScriptedWorker(), one, other):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.error_code, mission.retry_count) == ("failed", "ERROR304", 1)
    assert (len(one.created), len(other.created)) == (1, 1)


@config(http_timeout=1.0, error_backoff=0.2)
@pytest.mark.parametrize("how", ["503", "hanging", "garbage"])
async def test_with_all_writers_dead_a_mission_waits_and_says_why(app: Regente, how: str) -> None:
    """O10, O15: it is not burnt: no retry, and it is stored as soon as one is back."""
    await app.missions.set("max_retries", 0)
    first, second = dead(how), dead(how)
    second.name = "other"
    async with conducting(app, ScriptedWorker(), first, second):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM writers WHERE failures > 0 HAVING count(*) = 2")

        async def told() -> bool:
            why = await app.missions.why(mission_id)
            named = "dead" in why.summary or "other" in why.summary
            return why.code in ("WRITERS_FAIL", "WRITER_FAILS") and named

        await eventually_async(told)
        assert (await app.missions.get(mission_id)).status == "running"
        alive(second)
        mission = await finished(app, mission_id, within_seconds=60.0)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert second.created == [mission.writer_job_id]


@config(error_backoff=0.1)
async def test_a_writer_that_is_back_gets_jobs_again(app: Regente) -> None:
    """O10: it is tried again when its rest is over, and its failures are forgotten."""
    back, good = dead("503"), ScriptedWriter("good")
    async with conducting(app, ScriptedWorker(), back, good):
        (probe,) = await app.missions.create([MISSION], queue=True)
        await finished(app, probe)
        while not (await writer_named(app, "dead")).failures:
            (probe,) = await app.missions.create([MISSION], queue=True)
            await finished(app, probe)
        alive(back)
        while not back.created:
            (probe,) = await app.missions.create([MISSION], queue=True)
            assert (await finished(app, probe)).retry_count == 0
        found = await writer_named(app, "dead")
        assert (found.status, found.failures, found.error_message) == ("active", 0, None)


@pytest.mark.parametrize("call", [("POST", "/process"), ("GET", "/status/.*")])
async def test_a_writer_that_refuses_our_key_is_deactivated_and_costs_no_mission_its_life(
    app: Regente, call: tuple[str, str]
) -> None:
    """O15: 401: inactive with its reason; the mission waits, or goes to another writer."""
    worker, writer = ScriptedWorker(), ScriptedWriter("locked")
    writer.fault(*call, 401, times=ALWAYS)
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        row = await until(app, "SELECT error_code, error_message FROM writers WHERE NOT active")
        assert row["error_code"] == "ERROR301"
        assert "401" in row["error_message"]
        why = await app.missions.why(mission_id)
        assert why.code == "NO_WRITER"
        assert "locked" in why.summary
        assert "401" in why.summary
        alive(writer)
        await app.fleet.set_active("writer", (await app.fleet.find("locked"))[1], True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert worker.count("POST", "/scrape") == 1
    assert len(writer.created) == 1
    (told,) = await rows(app, "SELECT details FROM events WHERE event = 'writer_deactivated'")
    assert told["details"]["by"] == "regente"
    assert (await writer_named(app, "locked")).error_message is None


async def test_a_lost_answer_is_asked_for_before_another_writer_gets_the_job(app: Regente) -> None:
    """O10, O14, F7: the writer has the job and says so: no other one is given it."""
    first, second = ScriptedWriter(), ScriptedWriter()
    for writer in (first, second):
        writer.fault("POST", "/process", 502, after=True)
    async with conducting(app, ScriptedWorker(), first, second):
        for mission_id in await app.missions.create([MISSION] * 4, queue=True):
            mission = await finished(app, mission_id)
            assert (mission.status, mission.retry_count) == ("completed", 0)
    assert len(first.created) + len(second.created) == 4


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_job_that_a_dead_writer_may_have_goes_to_another_under_the_same_name(
    app: Regente, recorded: bool
) -> None:
    """O10, O14, F6, F7: asked as long as an outage may last; then the same name is the same job
    for writers that share their jobs, and the same rows for others."""
    first, second = ScriptedWriter("first"), ScriptedWriter("second")
    if not recorded:
        first.fault("POST", "/process", 502, times=ALWAYS, after=True)
    first.default_job = [{"status": "processing"}]
    async with conducting(app, ScriptedWorker(), first):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        column = "writer_job_id" if recorded else "writer_sent_at"
        await until(app, f"SELECT FROM mission_runs WHERE {column} IS NOT NULL")
        await eventually_async(lambda: _created(first))
        for call in ANY:
            first.fault(*call, 503, times=ALWAYS)
        async with fleet_of(app, second, proxies=0):
            mission = await finished(app, mission_id, within_seconds=60.0)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert first.created == second.created == [mission.writer_job_id]
    assert await retried(app) == []
    failed = dict(await events_of(app, mission_id))["writer_failed"]
    assert failed["writer_name"] == "first"


async def _created(writer: ScriptedWriter) -> bool:
    return bool(writer.created)


@config(error_backoff=0.1)
async def test_a_writer_that_forgets_every_job_rests_and_another_one_stores(app: Regente) -> None:
    """O10, O15: accepted and unknown at once, again and again: sent to it twice, not for ever."""
    forgetful, good = ScriptedWriter("forgetful"), ScriptedWriter("good")
    forgetful.fault("GET", FORGOTTEN, 404, times=ALWAYS)
    async with conducting(app, ScriptedWorker(), forgetful, good):
        ids = await app.missions.create([MISSION] * 6, queue=True)
        ended = [await finished(app, one) for one in ids]
    assert {(mission.status, mission.retry_count) for mission in ended} == {("completed", 0)}
    assert len(good.created) == 6
    assert set(Counter(sent["job_id"] for sent in forgetful.sent("POST", "/process")).values()) <= {
        2
    }


@config(error_backoff=0.1)
async def test_the_only_writer_that_forgets_every_job_uses_up_the_retries(app: Regente) -> None:
    """O15: ERROR304 in the end, and never without a pause."""
    forgetful = ScriptedWriter("forgetful")
    forgetful.fault("GET", FORGOTTEN, 404, times=ALWAYS)
    async with conducting(app, ScriptedWorker(), forgetful):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.error_code, mission.retry_count) == ("failed", "ERROR304", 2)
    assert forgetful.count("POST", "/process") == 6


async def test_a_rate_limit_of_one_writer_sends_the_job_to_another(app: Regente) -> None:
    """O10, O15: at once and without a charge; the limited one is not at fault."""
    busy, good = ScriptedWriter("busy"), ScriptedWriter("good")
    busy.fault("POST", "/process", 429, times=ALWAYS)
    async with conducting(app, ScriptedWorker(), busy, good):
        ids = await app.missions.create([MISSION] * 6, queue=True)
        ended = [await finished(app, one) for one in ids]
    assert {(mission.status, mission.retry_count) for mission in ended} == {("completed", 0)}
    assert (len(good.created), busy.created) == (6, [])
    assert (await writer_named(app, "busy")).failures == 0


async def test_a_rate_limit_of_all_writers_is_waited_out(app: Regente) -> None:
    """O15: each was asked once before the mission waits."""
    writers = [ScriptedWriter("one"), ScriptedWriter("other")]
    for writer in writers:
        writer.fault("POST", "/process", 429, retry_after="3600")
    async with conducting(app, ScriptedWorker(), *writers):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM events WHERE event = 'task_throttled'")
        assert [writer.count("POST", "/process") for writer in writers] == [1, 1]
        await rows(app, "UPDATE tasks SET run_at = clock() WHERE run_at > clock()")
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)


async def test_a_status_that_makes_no_sense_is_the_jobs_fault_when_the_writer_is_well(
    app: Regente,
) -> None:
    """O10, O15: ERROR300, with a new job."""
    writer = ScriptedWriter()
    writer.job_script = [[{"status": "sleeping"}]]
    async with conducting(app, ScriptedWorker(), writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 1)
    assert await retried(app) == ["ERROR300"]
