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
from tests.api.conftest import Served

OPEN = {("GET", "/api/health"), ("POST", "/api/session")}


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
        if (method, path) == ("GET", "/api/health"):
            assert anonymous.status_code == 200
            continue
        assert anonymous.status_code == 401, (method, path, anonymous.text)
        assert anonymous.json()["code"] == "UNAUTHORIZED"
        assert anonymous.headers["content-type"] == "application/problem+json"
        if (method, path) in OPEN:
            continue
        role = Role(operation["x-required-role"])
        for smaller in [one for one in Role if not one.includes(role)]:
            answer = await api.caller(smaller).request(method, concrete(path))
            assert answer.status_code == 403, (method, path, smaller, answer.text)
            assert answer.json()["code"] == "FORBIDDEN"
    assert seen > 90


async def test_reading_needs_no_more_than_a_viewer_and_changing_needs_more(app: Regente) -> None:
    """O18: the roles make sense."""
    for method, path, operation in operations(create_app(app).openapi()):
        role = operation.get("x-required-role")
        if method == "GET" and path not in ("/api/health", "/api/keys"):
            assert role == "viewer", path
        if method != "GET" and path != "/api/session":
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
    async with httpx2.AsyncClient(base_url=api.url, trust_env=False, verify=False) as client:
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
