"""O21: every status of a session, and the cause that a broken one reports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.filters import filters
from tests.services.worker.conftest import Client, StartWorker, address
from tests.support.eventually import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHASES = ["initializing", "connecting", "authenticating", "warming_up", "ready"]


async def test_a_session_goes_through_its_phases_in_order(
    sandbox: Sandbox, start_worker: StartWorker
) -> None:
    async with start_worker(phase_seconds=0.5) as worker:
        seen = [(await worker.session()).status.value]
        await worker.post_session(sandbox.proxies[0])

        async def is_ready() -> bool:
            status = (await worker.session()).status.value
            if status != seen[-1]:
                seen.append(status)
            return status == "ready"

        await eventually_async(is_ready)
        assert seen == ["terminated", *PHASES]


async def test_a_session_goes_out_through_its_own_proxy(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[1])
    assert sandbox.connections_through(sandbox.proxies[0]) == 0
    assert sandbox.connections_through(sandbox.proxies[1]) > 0


async def test_a_session_works_without_a_proxy(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(None)
    assert sum(map(sandbox.connections_through, sandbox.proxies)) == 0


async def test_force_refresh_replaces_the_session_and_its_job(
    sandbox: Sandbox, worker: Client
) -> None:
    first, second = sandbox.proxies
    await worker.ready_session(first)
    sandbox.break_with(FaultKind.HANG, path="/ads")
    job_id = await worker.start(filters())
    kept = await worker.post_session(second, force_refresh=False)
    assert (kept.json()["status"], sandbox.connections_through(second)) == ("scraping", 0)
    await worker.ready_session(second)
    ended = await worker.job(job_id)
    assert (ended["status"], ended["problem"]["message"]) == (
        "cancelled",
        "its session was replaced",
    )


async def test_ending_a_session_cancels_its_job_and_can_be_repeated(
    sandbox: Sandbox, worker: Client
) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.HANG, path="/ads")
    job_id = await worker.start(filters(), key="mission-1")
    session = await worker.session()
    assert (session.status, session.job_id, session.job_key) == ("scraping", job_id, "mission-1")
    for _ in range(2):
        answer = await worker.http.delete("/session")
        assert (answer.status_code, answer.json()["status"]) == (200, "terminated")
    assert (await worker.job(job_id))["status"] == "cancelled"


async def test_sessions_that_are_asked_for_at_once_leave_one(
    sandbox: Sandbox, worker: Client
) -> None:
    asked = [worker.post_session(sandbox.proxies[number % 2]) for number in range(6)]
    answers = await asyncio.gather(
        *asked, worker.http.delete("/session"), worker.post_session(sandbox.proxies[0])
    )
    assert {answer.status_code for answer in answers} == {200}
    await worker.until_session("ready")
    assert (await worker.finished(await worker.start(filters())))["ads_count"] == sandbox.total(
        filters()
    )


async def test_a_session_can_be_ended_while_it_starts(sandbox: Sandbox, worker: Client) -> None:
    sandbox.break_with(FaultKind.HANG)
    await worker.post_session(sandbox.proxies[0])
    await worker.until_session("connecting")
    assert (await worker.http.delete("/session")).json()["status"] == "terminated"
    sandbox.faults.clear()
    await worker.ready_session(sandbox.proxies[0])


@pytest.mark.parametrize(
    ("fault", "scope", "cause", "http_status"),
    [
        (FaultKind.PROXY_407, {}, "proxy", 407),
        (FaultKind.PROXY_451, {}, "proxy", 451),
        (FaultKind.PROXY_REFUSED, {}, "proxy", None),
        (FaultKind.PROXY_RESET, {}, "proxy", None),
        (FaultKind.BLOCKED, {"path": "/session"}, "blocked", 403),
        (FaultKind.UNAVAILABLE, {"path": "/home"}, "target", 503),
        (FaultKind.THROTTLED, {"retry_after": 42}, "throttled", 429),
    ],
)
async def test_a_session_that_cannot_start_is_disconnected_and_says_whose_fault_it_was(
    sandbox: Sandbox,
    worker: Client,
    fault: FaultKind,
    scope: dict[str, Any],
    cause: str,
    http_status: int | None,
) -> None:
    sandbox.break_with(fault, **scope)
    await worker.post_session(sandbox.proxies[0])
    session = await worker.until_session("disconnected")
    assert session.problem is not None
    assert (session.problem.cause, session.problem.http_status) == (cause, http_status)
    assert session.problem.retry_after == scope.get("retry_after")


@pytest.mark.parametrize(
    ("fault", "cause", "http_status"),
    [
        (FaultKind.PROXY_407, "proxy", 407),
        (FaultKind.PROXY_451, "proxy", 451),
        (FaultKind.PROXY_RESET, "proxy", None),
        (FaultKind.PROXY_REFUSED, "proxy", None),
        (None, "target", None),  # the library does not speak TLS
    ],
)
async def test_tunnels_are_judged_like_plain_requests(
    sandbox: Sandbox,
    start_worker: StartWorker,
    fault: FaultKind | None,
    cause: str,
    http_status: int | None,
) -> None:
    if fault:
        sandbox.break_with(fault)
    async with start_worker(target=sandbox.library_url.replace("http:", "https:")) as worker:
        await worker.post_session(sandbox.proxies[0])
        session = await worker.until_session("disconnected")
        assert session.problem is not None
        assert (session.problem.cause, session.problem.http_status) == (cause, http_status)


async def test_a_proxy_that_takes_no_connections_is_the_proxys_problem(
    start_worker: StartWorker,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, contextlib.ExitStack() as queue:
        for _ in range(3):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        async with start_worker(connect_timeout_seconds=0.3) as worker:
            await worker.http.post(
                "/session", json={"proxy": {"server": f"127.0.0.1:{deaf.getsockname()[1]}"}}
            )
            session = await worker.until_session("disconnected", "stuck")
            assert (session.status, session.problem and session.problem.cause) == (
                "disconnected",
                "proxy",
            )


@pytest.mark.parametrize(
    "server", ["no such host.invalid", "127.0.0.1:99999", "gopher://127.0.0.1:1", "http://"]
)
async def test_an_impossible_proxy_is_the_proxys_problem(worker: Client, server: str) -> None:
    await worker.http.post("/session", json={"proxy": {"server": server}})
    session = await worker.until_session("disconnected", "stuck")
    assert (session.status, session.problem and session.problem.cause) == ("disconnected", "proxy")


async def test_wrong_proxy_credentials_are_the_proxys_problem_and_stay_secret(
    sandbox: Sandbox, worker: Client
) -> None:
    wrong = address(sandbox.proxies[0]) | {"password": "a-canary"}
    answer = await worker.http.post("/session", json={"proxy": wrong})
    session = await worker.until_session("disconnected")
    assert session.problem is not None
    assert session.problem.http_status == 407
    assert "canary" not in answer.text + session.model_dump_json()


@pytest.mark.parametrize("fault", [FaultKind.HANG, FaultKind.PROXY_HANG])
@pytest.mark.parametrize(
    "timeouts", [{"stuck_seconds": 0.3}, {"request_timeout_seconds": 0.3}], ids=["stuck", "timeout"]
)
async def test_a_session_without_progress_is_stuck(
    sandbox: Sandbox, start_worker: StartWorker, fault: FaultKind, timeouts: dict[str, float]
) -> None:
    sandbox.break_with(fault)
    async with start_worker(**timeouts) as worker:
        await worker.post_session(sandbox.proxies[0])
        session = await worker.until_session("stuck", "disconnected")
        assert (session.status, session.problem and session.problem.cause) == ("stuck", "target")
