"""`/docs`: the OpenAPI document and a self-contained page that renders it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.roles import Viewer
from regente.api.pages import page
from regente.api.resource import resource

routes = resource("", "documentation")


@routes.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, who: Viewer) -> dict[str, Any]:
    document: dict[str, Any] = request.app.openapi()
    return document


@routes.get("/docs", include_in_schema=False)
async def docs(who: Viewer) -> Response:
    return page("docs.html")
