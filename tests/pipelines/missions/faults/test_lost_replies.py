"""The peer acts and its reply is lost: an error instead, or a broken connection (F7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from regente import Regente
from tests.pipelines.missions.faults.conftest import Environment, environment_with, missions_on
from tests.pipelines.missions.faults.peers import JobScript, overlaps
from tests.pipelines.missions.faults.runner_processes import ForkServer
from tests.support.peers import Fault, Peer


class Cut(Response):
    """A response that ends before its announced length: the client sees a broken connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"job_id": "', "more_body": True})


def lose_the_answer(peer: Peer, how: str) -> None:
    """To the next `POST /scrape`, which takes effect."""
    answers: dict[str, Callable[[], Response]] = {
        "error": lambda: Response(status_code=502),
        "cut": Cut,
        "silence": lambda: StreamingResponse(never()),
    }
    peer.faults.append(Fault("POST", "/scrape", answers[how], after=True))


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


CALLS = ["/session", "/scrape", "/process"]


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(("how", "times"), [("error", 2), ("cut", 1)])
async def test_a_lost_reply_doubles_nothing(
    path: str, how: str, times: int, env: Environment
) -> None:
    """F7, O8, O10, O14: the peer is asked before a repetition; one key is one job."""
    peer: Peer = env.writer if path == "/process" else env.worker
    if how == "error":
        peer.fault("POST", path, 502, times=times, after=True)
    else:
        peer.faults.append(Fault("POST", path, Cut, times=times, after=True))
    env.worker.script_of = lambda _: JobScript(0.6)
    await env.app.missions.create(missions_on(1), queue=True)
    env.runner()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert (len(env.worker.watched), len(env.writer.created)) == (1, 1)
    assert [span for span in env.worker.spans if span.replaced] == []


@pytest.mark.parametrize("how", ["error", "cut", "silence"])
@pytest.mark.parametrize("tells_scraping", [True, False])
async def test_a_worker_without_keys_never_runs_two_jobs_after_a_lost_answer(
    how: str, tells_scraping: bool, env: Environment
) -> None:
    """F7, O8, O10, O14: the unknown job is ended with its session before the next begins, also when
    the session says `ready` meanwhile."""
    env.worker.knows_keys, env.worker.tells_scraping = False, tells_scraping
    lose_the_answer(env.worker, how)
    env.worker.script_of = lambda _: JobScript(5.0)
    await env.app.missions.create(missions_on(1), queue=True)
    env.runner(http_timeout=1.0)
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert len(env.worker.watched) == 2
    assert env.worker.overlapping == []
    assert len(env.writer.created) == 1


async def test_a_worker_with_keys_that_says_ready_is_sent_the_same_job_again(
    env: Environment,
) -> None:
    """F7, O8: the same key is the same job, so the session may live on."""
    env.worker.tells_scraping = False
    lose_the_answer(env.worker, "cut")
    env.worker.script_of = lambda _: JobScript(0.6)
    await env.app.missions.create(missions_on(1), queue=True)
    env.runner()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert (len(env.worker.watched), len(env.worker.spans)) == (1, 1)


@pytest.mark.parametrize("knows_keys", [True, False])
async def test_a_worker_that_restarts_after_a_lost_answer_runs_one_job_at_a_time(
    knows_keys: bool, env: Environment
) -> None:
    """F6, F7, O8, O14: it has forgotten its session, and goes on with the job all the same."""
    env.worker.knows_keys, env.worker.tells_scraping = knows_keys, False
    worker = env.worker
    lose_the_answer(worker, "cut")

    def restarting(_: object) -> JobScript:
        if len(worker.watched) == 0 and worker.span is not None:
            worker.span.closed = time.monotonic()  # its job runs on
        return JobScript(2.0)

    worker.script_of = restarting
    await env.app.missions.create(missions_on(1), queue=True)
    env.runner()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert mission.status == "completed"
    assert len(worker.watched) == 2
    assert worker.overlapping == []
    assert len(env.writer.created) == 1


async def test_the_session_ends_before_another_worker_gets_the_mission(
    app: Regente, forkserver: ForkServer, tmp_path: Path
) -> None:
    """F6, F7: a worker that answers its polls with errors: its job is ended first."""
    async with environment_with(app, forkserver, tmp_path, workers=2, proxies=2) as env:
        for worker in env.workers:
            worker.script_of = lambda _: JobScript(5.0) if first_job(env) else JobScript(0.3)
            worker.fault("GET", "/scrape/.*", 500, times=12)
        await env.app.missions.create(missions_on(1), queue=True)
        env.runner(outage_seconds=0.5)
        await env.all_ended()
        await env.at_rest()
        jobs = [job for worker in env.workers for job in worker.watched.values()]
        assert overlaps([(job.began, job.end, job.id) for job in jobs]) == []
        assert (await env.statuses()) == ["completed"]


def first_job(env: Environment) -> bool:
    return not any(worker.watched for worker in env.workers)
