"""O21: forward proxies with basic auth, and their faults."""

from __future__ import annotations

import asyncio

import pytest
from curl_cffi.requests.exceptions import RequestException, Timeout

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.sandbox.conftest import Visitor


@pytest.mark.parametrize("tunnel", [False, True], ids=["absolute-form", "connect"])
async def test_a_proxy_forwards_authorized_clients(sandbox: Sandbox, tunnel: bool) -> None:
    first, second = sandbox.proxies
    visitor = Visitor(sandbox.library_url, first, tunnel=tunnel)
    assert (await visitor.get("/session")).status_code == 200
    assert (await visitor.get("/home")).status_code == 200
    assert (sandbox.connections_through(first) > 0, sandbox.connections_through(second)) == (
        True,
        0,
    )
    await visitor.http.close()


async def test_wrong_credentials_are_answered_with_407(sandbox: Sandbox) -> None:
    visitor = Visitor(sandbox.library_url, sandbox.proxies[0], password="wrong")
    answer = await visitor.get("/")
    assert (answer.status_code, "Basic" in str(answer.headers["proxy-authenticate"])) == (407, True)
    await visitor.http.close()


async def test_a_proxy_forwards_to_this_machine_only_and_survives_nonsense(
    sandbox: Sandbox, visitor: Visitor
) -> None:
    assert (await visitor.http.get("http://192.0.2.1/")).status_code == 403
    assert (await visitor.http.get("http://127.0.0.1:1/")).status_code == 502
    reader, writer = await asyncio.open_connection(sandbox.proxies[0].host, sandbox.proxies[0].port)
    writer.write(b"nonsense\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()
    assert (await visitor.get("/")).status_code == 200


async def test_a_proxy_that_refuses_is_back_when_the_fault_is_cleared(
    sandbox: Sandbox, visitor: Visitor
) -> None:
    fault = sandbox.break_with(FaultKind.PROXY_REFUSED, proxy="proxy-1")
    with pytest.raises(RequestException, match="Could not connect"):
        await visitor.get("/")
    other = Visitor(sandbox.library_url, sandbox.proxies[1])
    assert (await other.get("/")).status_code == 200
    sandbox.faults.clear(fault)
    assert (await visitor.get("/")).status_code == 200
    await other.http.close()


async def test_a_proxy_can_refuse_to_sign_in_reset_or_hang(
    sandbox: Sandbox, visitor: Visitor
) -> None:
    sandbox.break_with(FaultKind.PROXY_407, count=1)
    assert (await visitor.get("/")).status_code == 407
    sandbox.break_with(FaultKind.PROXY_451, count=1)
    assert (await visitor.get("/")).status_code == 451
    sandbox.break_with(FaultKind.PROXY_RESET, count=1)
    with pytest.raises(RequestException, match="reset by peer"):
        await visitor.get("/")
    sandbox.break_with(FaultKind.PROXY_HANG, count=1)
    with pytest.raises(Timeout):
        await visitor.http.get(sandbox.library_url, timeout=0.2)
    assert (await visitor.get("/")).status_code == 200
