"""A sandbox, and clients that visit it through their own proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from curl_cffi import CurlOpt
from curl_cffi.requests import AsyncSession, Response

from regente.services.sandbox import ProxyAccount, Sandbox

TIMEOUT_SECONDS = 2.0


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=2, seed=7) as opened:
        yield opened


class Visitor:
    """A client behind a proxy."""

    def __init__(
        self,
        base_url: str,
        proxy: ProxyAccount,
        *,
        password: str | None = None,
        tunnel: bool = False,
    ) -> None:
        self._base_url = base_url
        credentials = (proxy.username, proxy.password if password is None else password)
        self.http: AsyncSession[Response] = AsyncSession(
            proxy=f"http://{proxy.server}",
            proxy_auth=credentials,
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            curl_options={CurlOpt.HTTPPROXYTUNNEL: 1} if tunnel else {},
        )

    async def get(self, path: str) -> Response:
        return await self.http.get(self._base_url + path)


@pytest.fixture
async def visitor(sandbox: Sandbox) -> AsyncIterator[Visitor]:
    """A client with a session, through the first proxy."""
    one = Visitor(sandbox.library_url, sandbox.proxies[0])
    assert (await one.get("/session")).status_code == 200
    yield one
    await one.http.close()
