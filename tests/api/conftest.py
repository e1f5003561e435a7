"""The API on a real server over a real database, with a client for each role."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.app import create_app
from regente.api.config import ApiConfig
from regente.api.queries import LimitedDatabase
from regente.asgi.server import serving
from regente.settings import Settings

DAY = {
    "date_start": "2025-01-15",
    "date_end": "2025-01-15",
    "media_type": "video",
    "languages": ["pt"],
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        sweep_seconds=0.2,
        batches_seconds=0.2,
        schedules_seconds=0.2,
        drain_seconds=5.0,
        http_timeout=5.0,
    )


@pytest.fixture
def config(request: pytest.FixtureRequest) -> ApiConfig:
    return ApiConfig(**getattr(request, "param", {}))


def with_config(**changes: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("config", [changes], indirect=True, ids=["config"])


@dataclass(frozen=True, slots=True)
class Served:
    """One API and a client for each role."""

    url: str
    app: Regente
    anonymous: httpx2.AsyncClient
    viewer: httpx2.AsyncClient
    operator: httpx2.AsyncClient
    admin: httpx2.AsyncClient

    def caller(self, role: Role | None) -> httpx2.AsyncClient:
        found: httpx2.AsyncClient = getattr(self, role.value if role else "anonymous")
        return found


@pytest.fixture
async def api(app: Regente, config: ApiConfig) -> AsyncIterator[Served]:
    async with served(app, config) as found:
        yield found


@contextlib.asynccontextmanager
async def served(app: Regente, config: ApiConfig | None = None) -> AsyncIterator[Served]:
    ring = ApiKeys(LimitedDatabase(app.database))
    known = {row["name"] for row in await ring.all()}
    assert not known, "one API for each test"
    keys = {role: (await ring.create(f"the-{role}", role, by="test")).secret for role in Role}
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(create_app(app, config), drain_seconds=0))

        async def caller(headers: dict[str, str]) -> httpx2.AsyncClient:
            client = httpx2.AsyncClient(
                base_url=url, headers=headers, trust_env=False, timeout=30, verify=False
            )
            return await stack.enter_async_context(client)

        callers = {role.value: await caller({"x-api-key": keys[role]}) for role in Role}
        yield Served(url, app, await caller({}), **callers)


def body_of(answer: httpx2.Response, status: int = 200) -> Any:
    """The response's JSON; fails the test with its text when the status is another."""
    assert answer.status_code == status, (
        f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    )
    return answer.json() if answer.content else None


async def events_of(app: Regente, *names: str) -> list[dict[str, Any]]:
    """The events of these names, oldest first."""
    return [
        {"event": one.event, **(one.details or {})}
        for one in await app.feed()
        if one.event in names
    ]
