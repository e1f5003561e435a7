"""The test buttons of workers, proxies and writers, against real ones."""

from __future__ import annotations

import dataclasses

import pytest
from starlette.responses import JSONResponse, Response

from regente.engine.errors import NotFound
from regente.fleet.health import check_member
from regente.fleet.models import Kind
from regente.fleet.registry import Fleet
from regente.services.sandbox import FaultKind, Sandbox
from tests.fleet.conftest import rows
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter


async def press(fleet: Fleet, kind: Kind, member_id: str) -> tuple[bool, str]:
    """The result of the button, which the register must have recorded."""
    said = await check_member(fleet, kind, member_id)
    (row,) = await rows(
        fleet,
        f"SELECT last_test_at, last_test_ok, last_test_message FROM {kind.replace('xy', 'xie')}s",
    )
    assert (row["last_test_ok"], row["last_test_message"]) == (said.ok, said.message)
    assert row["last_test_at"] is not None
    return said.ok, said.message


async def test_a_worker_is_asked_for_its_session(fleet: Fleet) -> None:
    """O20: with and without a session; a wrong key, nonsense and no answer are told apart."""
    worker = ScriptedWorker()
    async with worker.served() as url:
        worker_id = await fleet.add_worker("w", url, API_KEY, "s.example.com")
        assert await press(fleet, "worker", worker_id) == (
            True,
            "it answers; its session is terminated",
        )
        worker.fault("GET", "/session/status", 404)
        assert await press(fleet, "worker", worker_id) == (True, "it answers; it has no session")
        worker.fault_with("GET", "/session/status", lambda: Response("<html>hello</html>"))
        ok, says = await press(fleet, "worker", worker_id)
        assert (ok, "not JSON: <html>hello</html>" in says) == (False, True)
        await fleet.edit("worker", worker_id, {"api_key": "a-wrong-key"})
        ok, says = await press(fleet, "worker", worker_id)
        assert (ok, "answered 401" in says) == (False, True)
        await rows(fleet, "UPDATE workers SET storage_domain = NULL")
        assert (await press(fleet, "worker", worker_id))[0] is False
        await rows(fleet, "UPDATE workers SET storage_domain = 's.example.com'")
    ok, says = await press(fleet, "worker", worker_id)
    assert (ok, "cannot connect" in says) == (False, True)


async def test_a_writer_is_tested_by_its_health_and_its_key(fleet: Fleet) -> None:
    """O20: `/health` needs no key, so the key is tested too."""
    writer = ScriptedWriter()
    async with writer.served() as url:
        writer_id = await fleet.add_writer("w", url, API_KEY)
        assert await press(fleet, "writer", writer_id) == (True, "healthy")
        writer.fault_with("GET", "/health", lambda: JSONResponse({"status": "sick"}))
        assert await press(fleet, "writer", writer_id) == (False, "its health is 'sick'")
        await fleet.edit("writer", writer_id, {"api_key": "a-wrong-key"})
        ok, says = await press(fleet, "writer", writer_id)
        assert (ok, "answered 401" in says) == (False, True)
    assert (await press(fleet, "writer", writer_id))[0] is False


async def test_a_proxy_is_tested_by_a_request_through_it(fleet: Fleet) -> None:
    """O20: a forward proxy with the right, a wrong and no password; one that refuses."""
    async with Sandbox(proxies=1, seed=7) as sandbox:
        account = sandbox.proxies[0]
        proxy_id = await fleet.add_proxy(
            "p", account.host, account.port, account.username, account.password
        )
        assert await press(fleet, "proxy", proxy_id) == (True, "it answers")
        fleet.config = dataclasses.replace(fleet.config, proxy_test_url=f"{sandbox.library_url}/")
        ok, says = await press(fleet, "proxy", proxy_id)
        assert (ok, says.endswith("answered 200 through it")) == (True, True)
        assert sandbox.connections_through(account) >= 2
        for kind in (FaultKind.PROXY_407, FaultKind.PROXY_451, FaultKind.PROXY_RESET):
            sandbox.break_with(kind, count=1)
            assert (await press(fleet, "proxy", proxy_id))[0] is False
        await fleet.edit("proxy", proxy_id, {"password": "a-wrong-password"})
        ok, says = await press(fleet, "proxy", proxy_id)
        assert ok is False
        assert "a-wrong-password" not in says
    assert (await press(fleet, "proxy", proxy_id))[0] is False


async def test_a_proxy_that_cannot_be_tested_from_here_says_so(fleet: Fleet) -> None:
    """O20: a SOCKS proxy without the optional library gets a message, not a crash."""
    proxy_id = await fleet.add_proxy("p", "socks5://127.0.0.1", 9)
    assert (await press(fleet, "proxy", proxy_id))[0] is False


async def test_an_unknown_member_cannot_be_tested(fleet: Fleet) -> None:
    """O20."""
    for kind in ("worker", "proxy", "writer"):
        with pytest.raises(NotFound):
            await check_member(fleet, kind, "unknown")
