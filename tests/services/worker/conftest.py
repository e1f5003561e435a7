"""A worker on a real server in front of a real sandbox, and a client that calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from regente.asgi.server import serving
from regente.contracts.worker import Filters, ScrapeJob, Session
from regente.services.sandbox import ProxyAccount, Sandbox
from regente.services.worker import WorkerSettings, create_app
from tests.services.filters import payload
from tests.support.eventually import eventually_async

KEY = "a key for tests only"
QUICK: dict[str, Any] = {
    "api_key": KEY,
    "request_timeout_seconds": 5.0,
    "stuck_seconds": 10.0,
    "backoff_seconds": 0.01,
    "max_backoff_seconds": 0.05,
    "throttle_patience_seconds": 1.0,
    "page_attempts": 3,
    "requests_per_minute": 100_000,
}


def client_without_key(url: str, **options: Any) -> httpx2.AsyncClient:
    """A client without a key; without certificates, which take longer to load than most tests."""
    return httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False, verify=False, **options)


class Client:
    def __init__(self, url: str, key: str = KEY) -> None:
        self.url = url
        self.http = client_without_key(url, headers={"x-api-key": key})

    async def session(self) -> Session:
        answer = await self.http.get("/session/status")
        return Session.model_validate(answer.raise_for_status().json())

    async def post_session(
        self, proxy: ProxyAccount | None, *, force_refresh: bool = True
    ) -> httpx2.Response:
        return await self.http.post(
            "/session", json={"force_refresh": force_refresh, "proxy": proxy and address(proxy)}
        )

    async def until_session(self, *wanted: str) -> Session:
        async def reached() -> Session | None:
            session = await self.session()
            return session if session.status in wanted else None

        found = await eventually_async(reached)
        assert found is not None
        return found

    async def ready_session(self, proxy: ProxyAccount | None) -> None:
        assert (await self.post_session(proxy)).status_code == 200
        assert (await self.until_session("ready", "stuck", "disconnected")).status == "ready"

    async def start(self, wanted: Filters, key: str | None = None, **options: Any) -> str:
        headers = {"Idempotency-Key": key} if key else {}
        answer = await self.http.post("/scrape", json=payload(wanted, **options), headers=headers)
        assert answer.status_code == 200, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    async def job(self, job_id: str) -> dict[str, Any]:
        told: dict[str, Any] = (await self.http.get(f"/scrape/{job_id}")).raise_for_status().json()
        ScrapeJob.model_validate(told)
        return told

    async def until_job(
        self, job_id: str, *wanted: str, within_seconds: float = 10.0
    ) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            told = await self.job(job_id)
            return told if told["status"] in wanted else None

        found = await eventually_async(reached, within_seconds=within_seconds)
        assert found is not None
        return found

    async def finished(self, job_id: str, within_seconds: float = 10.0) -> dict[str, Any]:
        ends = ("completed", "empty", "failed", "cancelled", "paused")
        return await self.until_job(job_id, *ends, within_seconds=within_seconds)

    async def results(self, job_id: str) -> httpx2.Response:
        """The results at the URL of the contract's formula, read without the key."""
        async with client_without_key(self.url) as client:
            return await client.get(f"/storage/{job_id}/{job_id}_results.json")


def address(proxy: ProxyAccount) -> dict[str, str]:
    return {"server": proxy.server, "username": proxy.username, "password": proxy.password}


StartWorker = Callable[..., AbstractAsyncContextManager[Client]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=2, seed=7) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(shared_sandbox: Sandbox) -> AsyncIterator[Sandbox]:
    yield shared_sandbox
    shared_sandbox.reset()


@pytest.fixture
def start_worker(sandbox: Sandbox, tmp_path: Path) -> StartWorker:
    """Starts workers on the same folder, with the settings that the test gives."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Client]:
        given = {
            "data_dir": tmp_path / "worker",
            "target": sandbox.library_url,
            **QUICK,
            **settings,
        }
        async with serving(create_app(WorkerSettings(**given))) as url:
            client = Client(url)
            yield client
            await client.http.aclose()

    return start


@pytest_asyncio.fixture(loop_scope="module")
async def worker(start_worker: StartWorker) -> AsyncIterator[Client]:
    async with start_worker() as client:
        yield client
