"""The peer acts and its answer is lost: an error instead of it, or a
connection that breaks (F7)."""

from __future__ import annotations

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.pipelines.missions.faults.conftest import Environment, missions_on
from tests.pipelines.missions.faults.peers import JobScript
from tests.support.peers import Fault, Peer


class Cut(Response):
    """Promises more than it sends, and ends: the client sees a connection that broke."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"job_id": "', "more_body": True})


CALLS = ["/session", "/scrape", "/process"]


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(("how", "times"), [("error", 2), ("cut", 1)])
async def test_an_answer_that_is_lost_doubles_nothing(
    path: str, how: str, times: int, env: Environment
) -> None:
    """F7, O8, O10, O14: asked for what it did before it is told again; the same name twice is one
    job."""
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
    """F7, O8, O10, O14: its job cannot be known by name: it is ended with its session before
    another begins."""
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
