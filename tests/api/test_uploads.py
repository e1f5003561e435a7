"""Handlers that read a large body as a stream, in any built-in."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from fastapi import APIRouter
from starlette.requests import Request

from regente import Regente
from regente.api import app as application
from regente.api.access.roles import Operator
from regente.api.config import ApiConfig
from regente.api.resource import resource
from regente.api.routes import routers_of
from regente.api.uploads import takes_upload
from regente.pipelines.builtin import Builtin
from tests.api.conftest import body_of, served

MAX_BYTES = 10_000


@pytest.fixture
def attic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource with a route for uploads and one for JSON."""
    routes = resource("/api/attic", "system")

    @routes.post("/boxes", summary="Count the bytes of an upload")
    @takes_upload
    async def boxes(request: Request, who: Operator) -> int:
        return sum([len(part) async for part in request.stream()])

    @routes.post("/letters", summary="Count the bytes of JSON")
    async def letters(request: Request, who: Operator) -> int:
        return len(await request.body())

    def with_attic(builtins: Collection[Builtin]) -> tuple[APIRouter, ...]:
        return (*routers_of(builtins), routes)

    monkeypatch.setattr(application, "routers_of", with_attic)


@pytest.mark.usefixtures("attic")
async def test_only_a_handler_of_uploads_gets_more_than_the_limit(app: Regente) -> None:
    """O18: the limit holds for every other route."""
    body = b"[" * (MAX_BYTES + 1)
    async with served(app, ApiConfig(max_body_bytes=MAX_BYTES)) as api:
        assert body_of(await api.operator.post("/api/attic/boxes", content=body)) == len(body)
        refused = await api.operator.post("/api/attic/letters", content=body)
        assert body_of(refused, 413)["code"] == "BODY_TOO_LARGE"
        elsewhere = await api.operator.post("/api/attic/boxes/", content=body)
        assert body_of(elsewhere, 413)["code"] == "BODY_TOO_LARGE"
