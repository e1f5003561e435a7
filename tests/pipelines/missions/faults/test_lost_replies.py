"""The peer acts and its answer is lost: an error instead of it, or a
connection that breaks (F7)."""

from __future__ import annotations

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.pipelines.missions.faults.conftest import Theatre, missions_on
from tests.pipelines.missions.faults.peers import Fate
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
    path: str, how: str, times: int, theatre: Theatre
) -> None:
    """F7, O8, O10, O14: asked for what it did before it is told again; the same name twice is one
    job."""
    peer: Peer = theatre.writer if path == "/process" else theatre.worker
    if how == "error":
        peer.fault("POST", path, 502, times=times, after=True)
    else:
        peer.faults.append(Fault("POST", path, Cut, times=times, after=True))
    theatre.worker.fate_of = lambda _: Fate(0.6)
    await theatre.app.missions.create(missions_on(1), queue=True)
    theatre.orchestrator()
    await theatre.all_ended()
    await theatre.at_rest()
    (mission,) = await theatre.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert (len(theatre.worker.watched), len(theatre.writer.created)) == (1, 1)
    assert [span for span in theatre.worker.spans if span.replaced] == []


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_a_worker_without_keys_never_runs_two_jobs_after_a_lost_answer(
    how: str, theatre: Theatre
) -> None:
    """F7, O8, O10, O14: its job cannot be known by name: it is ended with its session before
    another begins."""
    theatre.worker.knows_keys = False
    if how == "error":
        theatre.worker.fault("POST", "/scrape", 502, after=True)
    else:
        theatre.worker.faults.append(Fault("POST", "/scrape", Cut, after=True))
    theatre.worker.fate_of = lambda _: Fate(0.6)
    await theatre.app.missions.create(missions_on(1), queue=True)
    theatre.orchestrator()
    await theatre.all_ended()
    await theatre.at_rest()
    (mission,) = await theatre.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert len(theatre.worker.watched) == 2
    assert theatre.worker.overlapping == []
    assert len(theatre.writer.created) == 1
