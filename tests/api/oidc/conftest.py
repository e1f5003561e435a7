"""Regente beside a provider: each test gets both, and a browser without a session."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from regente import Regente
from regente.api.app import create_app
from regente.api.config import ApiConfig
from regente.api.oidc.config import OidcConfig
from regente.asgi.server import serving
from tests.api.oidc.openid_provider import (
    CLIENT_ID,
    SECRET,
    OpenIdProvider,
    at_the_provider,
    openid_provider,
)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@asynccontextmanager
async def new_browser(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as browser:
        yield browser


@asynccontextmanager
async def regente_at(
    app: Regente, port: int, issuer: str, *, changes: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[str]:
    """The API with sign-in by this issuer; `changes` of its configuration."""
    url = f"http://127.0.0.1:{port}"
    oidc = OidcConfig(
        **{
            "issuer": issuer,
            "client_id": CLIENT_ID,
            "client_secret": SECRET,
            "public_url": url,
            "name": "Test login",
            **(changes or {}),
        }
    )
    served = create_app(app, ApiConfig(public_url=url, oidc=oidc, **config))
    async with serving(served, port=port, drain_seconds=0, before_stop=served.state.feed.close):
        yield url


@dataclass(slots=True)
class Office:
    """Regente, the provider, and a browser."""

    url: str
    app: Regente
    provider: OpenIdProvider
    browser: httpx2.AsyncClient

    async def come_back(
        self, login: str, browser: httpx2.AsyncClient | None = None, page: str = "/"
    ) -> httpx2.Response:
        """Begin, sign in at the provider: its redirect to Regente, which is not followed."""
        browser = browser or self.browser
        begun = await browser.get("/api/session/oidc", params={"next": page})
        assert begun.status_code == 303
        return await at_the_provider(browser, begun, login)

    async def sign_in(
        self, login: str, browser: httpx2.AsyncClient | None = None, page: str = "/"
    ) -> httpx2.Response:
        """The answer to the provider's redirect."""
        browser = browser or self.browser
        back = await self.come_back(login, browser, page)
        return await browser.get(back.headers["location"])

    async def session(self, browser: httpx2.AsyncClient | None = None) -> dict[str, Any] | None:
        answer = await (browser or self.browser).get("/api/session")
        return answer.json() if answer.is_success else None


ANA = {
    "email": "ana@example.com",
    "email_verified": True,
    "roles": ["staff", "operator"],
    "realm_access": {"roles": ["night shift"]},
}


@pytest.fixture
def oidc_changes(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(getattr(request, "param", {}))


def with_oidc(**changes: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("oidc_changes", [changes], indirect=True, ids=["oidc"])


@pytest.fixture
async def office(app: Regente, oidc_changes: dict[str, Any]) -> AsyncIterator[Office]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    in_id_token = oidc_changes.pop("claims_in_id_token", False)
    public = oidc_changes.get("client_secret", "") is None
    async with (
        openid_provider(url, claims_in_id_token=in_id_token, public=public) as provider,
        regente_at(app, port, provider.issuer, changes=oidc_changes),
        new_browser(url) as browser,
    ):
        provider.know(ana=ANA)
        yield Office(url, app, provider, browser)
