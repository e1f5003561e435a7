"""The peer acts and its reply is lost: an error instead, or a broken connection (F7)."""

from __future__ import annotations

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.pipelines.missions.faults.conftest import Environment, missions_on
from tests.pipelines.missions.faults.peers import JobScript
from tests.support.peers import Fault, Peer


class Cut(Response):
    """A response that ends before its announced length: the client sees a broken connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"job_id": "', "more_body": True})


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
    env.orchestrator()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert (len(env.worker.watched), len(env.writer.created)) == (1, 1)
    assert [span for span in env.worker.spans if span.replaced] == []


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_a_worker_without_keys_never_runs_two_jobs_after_a_lost_answer(
    how: str, env: Environment
) -> None:
    """F7, O8, O10, O14: the unknown job is ended with its session before the next begins."""
    env.worker.knows_keys = False
    if how == "error":
        env.worker.fault("POST", "/scrape", 502, after=True)
    else:
        env.worker.faults.append(Fault("POST", "/scrape", Cut, after=True))
    env.worker.script_of = lambda _: JobScript(0.6)
    await env.app.missions.create(missions_on(1), queue=True)
    env.orchestrator()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert len(env.worker.watched) == 2
    assert env.worker.overlapping == []
    assert len(env.writer.created) == 1
