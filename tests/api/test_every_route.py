"""Every route of the OpenAPI document refuses requests without a key or with too small a role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter

from regente import Regente
from regente.api.access.principal import Role
from regente.api.access.roles import UnguardedRoute, guard
from regente.api.app import create_app
from regente.api.audit import AuditedRoute
from regente.api.routes import ROUTERS
from tests.api.conftest import Served, with_config
from tests.support.raw_http import RawClient

OPEN = {
    ("GET", "/api/health"): 200,
    ("POST", "/api/session"): 401,
    ("GET", "/api/session/providers"): 200,
    # Without a provider there is no such page.
    ("GET", "/api/session/oidc"): 404,
    ("GET", "/api/session/oidc/callback"): 404,
}
"""The operations that need no key, and what they answer to nothing."""


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def concrete(path: str) -> str:
    """A value for each path parameter: the role is checked before the resource is read."""
    for name, value in {"member_id": "wk_0", "name": "none"}.items():
        path = path.replace(f"{{{name}}}", value)
    while "{" in path:
        start, _, rest = path.partition("{")
        path = f"{start}1{rest.partition('}')[2]}"
    return path


async def test_every_route_answers_401_without_a_key_and_403_with_too_small_a_role(
    api: Served, app: Regente
) -> None:
    """O18: closed by default, also for routes added later."""
    document = create_app(app).openapi()
    seen = 0
    for method, path, operation in operations(document):
        seen += 1
        anonymous = await api.anonymous.request(method, concrete(path))
        if (method, path) in OPEN:
            assert anonymous.status_code == OPEN[method, path], (method, path, anonymous.text)
            continue
        assert anonymous.status_code == 401, (method, path, anonymous.text)
        assert anonymous.json()["code"] == "UNAUTHORIZED"
        assert anonymous.headers["content-type"] == "application/problem+json"
        role = Role(operation["x-required-role"])
        for smaller in [one for one in Role if not one.includes(role)]:
            answer = await api.caller(smaller).request(method, concrete(path))
            assert answer.status_code == 403, (method, path, smaller, answer.text)
            assert answer.json()["code"] == "FORBIDDEN"
    assert seen > 90


SPELLINGS = (
    "/{path}",
    "//{path}",
    "/./{path}",
    "/nothing/../{path}",
    "/pages/../{path}",
    "/pages/%2e%2e/{path}",
    "/pages//{path}",
    "/sign-in/../{path}",
    "/api/health/../../{path}",
    "/api/health;/{path}",
    "/{path}/",
    "/{path}/.",
    "/{path}%2f",
    "/{path}%00",
    "/{path};a=b",
    "/{path}?path=/api/health",
    "/%61{rest}",
    "/{upper}",
    "http://localhost/{path}",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND")
TRICKS = {
    "x-http-method-override": "GET",
    "x-original-url": "/api/health",
    "x-rewrite-url": "/api/health",
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-proto": "https",
    "authorization": "Basic YWRtaW46YWRtaW4=",
    "origin": "https://evil.example",
}


@with_config(requests_per_second=100_000.0, request_burst=100_000)
async def test_no_spelling_or_method_opens_a_route(api: Served, app: Regente) -> None:
    """O18: each path × method × spelling, without a key and with a viewer's, sent as it is written:
    no change by either, no answer without a key, and no permission for other origins."""
    viewer = {"x-api-key": api.viewer.headers["x-api-key"]}
    known = {(method, concrete(path)) for method, path, _ in operations(create_app(app).openapi())}
    seen = 0
    async with RawClient.to(api.url) as client:
        for path in sorted({path for _, path in known}):
            own = [one for one in METHODS if (one, path) in known]
            for spelling, method in [
                *((one, method) for one in SPELLINGS for method in own),
                *(("/{path}", method) for method in METHODS if method not in own),
            ]:
                target = spelling.format(path=path[1:], rest=path[2:], upper=path[1:].upper())
                status, headers = await client.send(method, target, TRICKS)
                seen += 1
                told = (method, target, status)
                open_here = path in {one for _, one in OPEN}
                console = headers.get("content-type", "").startswith("text/html")  # without data
                allowed = {400, 401, 404, 405} | (
                    {200, 303, 422} if open_here or console else set()
                )
                assert status in allowed, told
                assert "access-control-allow-origin" not in headers, told
                if method not in ("GET", "HEAD", "get") and not path.startswith("/api/session"):
                    status, _ = await client.send(method, target, TRICKS | viewer)
                    assert status in (400, 401, 403, 404, 405), told
    assert seen > 2000


async def test_reading_needs_no_more_than_a_viewer_and_changing_needs_more(app: Regente) -> None:
    """O18: the roles make sense."""
    for method, path, operation in operations(create_app(app).openapi()):
        role = operation.get("x-required-role")
        if (method, path) in OPEN:
            assert role is None
            continue
        if method == "GET" and path not in ("/api/keys", "/api/people"):
            assert role == "viewer", path
        if method != "GET" and not path.startswith("/api/session"):  # those are one's own
            assert role in ("operator", "admin"), (method, path)


async def test_pages_beside_the_api_are_closed_too(api: Served) -> None:
    """O18: the documentation, its document and paths that do not exist."""
    for path in ("/docs", "/openapi.json", "/nothing", "/api", "/api/nothing", "/metrics"):
        assert (await api.anonymous.get(path)).status_code == 401, path
    assert (await api.viewer.get("/nothing")).json()["code"] == "NOT_FOUND"
    for path in ("/sign-in", "/pages/docs.js", "/pages/page.css"):
        assert (await api.anonymous.get(path)).status_code == 200, path


def test_a_route_without_a_role_is_refused_at_the_start() -> None:
    """O18: a forgotten role stops the start."""
    router = APIRouter()

    @router.get("/forgotten")
    async def forgotten() -> None:
        """A route without a role."""

    with pytest.raises(UnguardedRoute, match="forgotten"):
        guard(router)


def test_every_route_that_changes_something_is_audited() -> None:
    """O18: a route class writes the event, not each handler."""
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, AuditedRoute), route


async def test_wrong_keys_are_refused_however_they_look(api: Served) -> None:
    """O18: garbage, another key's prefix, nothing at all."""
    async with httpx2.AsyncClient(
        base_url=api.url, trust_env=False, timeout=60, verify=False
    ) as client:
        for key in ("", "x", "rg_", "rg_" + "A" * 43, "rg_" + "A" * 5000):
            answer = await client.get("/api/missions", headers={"x-api-key": key})
            assert answer.status_code in (401, 431), key
        for cookie in (
            "regente_session=nothing",
            "regente_session=",
            "a=[]; regente_session=ä",
            ";;;=",
        ):
            assert (
                await client.get("/api/missions", headers=[(b"cookie", cookie.encode())])
            ).status_code == 401, cookie
        for body in (b'{"token": "\\ud800"}', b'{"api_key": "rg_\\ud800"}', b"{}", b"null"):
            answer = await client.post(
                "/api/session", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 401, (body, answer.text)
