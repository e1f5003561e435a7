"""The test buttons: reaches a worker, proxy or writer with its key, and records the result."""

from __future__ import annotations

import time
from typing import assert_never

import httpx2
from pydantic import BaseModel, Field

from regente.contracts.worker import SessionStatus
from regente.fleet.models import Kind, Proxy
from regente.fleet.registry import Fleet
from regente.fleet.secrets import SecretsUnreadable
from regente.http_client.client import CallFailed, CallFailure

TEST_TIMEOUT_SECONDS = 15.0


class TestResult(BaseModel):
    """The result of a test."""

    ok: bool
    message: str = Field(examples=["it answers; its session is ready"])
    milliseconds: float


async def check_member(fleet: Fleet, kind: Kind, member_id: str) -> TestResult:
    started_at = time.monotonic()
    ok, message = await probe(fleet, kind, member_id)
    await fleet.change(f"note_{kind}_test", id=member_id, ok=ok, message=message)
    milliseconds = round((time.monotonic() - started_at) * 1000, 1)
    return TestResult(ok=ok, message=message, milliseconds=milliseconds)


async def probe(fleet: Fleet, kind: Kind, member_id: str) -> tuple[bool, str]:
    """Whether the member answers, and what it answers. Records nothing."""
    try:
        return await _probe(fleet, kind, member_id)
    except SecretsUnreadable as error:
        return False, error.message


async def _probe(fleet: Fleet, kind: Kind, member_id: str) -> tuple[bool, str]:
    match kind:
        case "worker":
            return await _test_worker(fleet, member_id)
        case "proxy":
            return await _test_proxy(await fleet.proxy(member_id), fleet.config.proxy_test_url)
        case "writer":
            return await _test_writer(fleet, member_id)
        case _:
            assert_never(kind)


async def _test_worker(fleet: Fleet, worker_id: str) -> tuple[bool, str]:
    worker = await fleet.worker(worker_id)
    if not worker.storage_domain:
        return False, "it has no storage_domain: without it its results cannot be found"
    try:
        session = await fleet.worker_client(worker).session()
    except CallFailed as error:
        if error.failure is CallFailure.MISSING:
            return True, "it answers; it has no session"
        return False, error.message
    return True, "it answers; its session is " + (
        session.status.value if session.status else SessionStatus.TERMINATED
    )


async def _test_writer(fleet: Fleet, writer_id: str) -> tuple[bool, str]:
    """Test `/health`, which needs no key, and a job's status, which does."""
    client = fleet.writer_client(await fleet.writer(writer_id))
    try:
        health = await client.health()
        if health != "healthy":
            return False, f"its health is {health!r}"
        await client.job("00000000-0000-0000-0000-000000000000")
    except CallFailed as error:
        return (True, "healthy") if error.failure is CallFailure.MISSING else (False, error.message)
    return True, "healthy"


async def _test_proxy(proxy: Proxy, url: str | None) -> tuple[bool, str]:
    """Request `url` through the proxy; without it a closed port, which the proxy itself answers."""
    auth = (proxy.username, proxy.password or "") if proxy.username else None
    try:
        through = httpx2.Proxy(proxy.url, auth=auth)
        async with httpx2.AsyncClient(
            proxy=through, timeout=TEST_TIMEOUT_SECONDS, trust_env=False
        ) as client:
            response = await client.get(url or "http://127.0.0.1:9/")
    except httpx2.ProxyError as error:
        return False, f"it refuses: {error}"
    except httpx2.TimeoutException:
        return False, "no answer in time"
    except ImportError:
        return False, "a SOCKS proxy needs `pip install httpx2[socks]` before it can be tested"
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return False, f"{type(error).__name__}: {error}"
    if response.status_code == 407:
        return False, "407: it refuses the user name and password"
    if response.status_code == 451:
        return False, "451: it refuses this destination"
    if url is None:
        return True, "it answers"
    return (response.status_code < 400, f"{url} answered {response.status_code} through it")


__all__ = ["TestResult", "check_member", "probe"]
