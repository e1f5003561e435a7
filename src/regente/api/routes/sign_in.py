"""`/sign-in`: the page of a sign-in link and its files; they need no authentication."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from regente.api.access.roles import Public
from regente.api.pages import NAMES, page
from regente.api.resource import resource
from regente.engine.errors import NotFound

routes = resource("", "pages")


@routes.get("/sign-in", include_in_schema=False)
async def sign_in(who: Public) -> Response:
    return page("sign-in.html")


@routes.get("/pages/{name}", include_in_schema=False)
async def part(name: Annotated[str, Path(max_length=100)], who: Public) -> Response:
    if name not in NAMES:
        raise NotFound(f"there is no page {name!r}")
    response = page(name)
    response.headers["cache-control"] = "no-cache"
    return response
