"""Reads the files of a form: limits their size, spools large ones to disk, closes them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from regente.api.errors import BodyTooLarge
from regente.engine.errors import InvalidInput

Handler = TypeVar("Handler", bound=Callable[..., Any])
_MARK = "regente_takes_upload"


def takes_upload(handler: Handler) -> Handler:
    """Marks a handler that reads its body as a stream, with a limit of its own. Its path has no
    parameters."""
    setattr(handler, _MARK, True)
    return handler


def upload_paths(routers: Iterable[APIRouter]) -> frozenset[str]:
    """The paths of the marked handlers."""
    routes = (route for router in routers for route in router.routes)
    return frozenset(
        route.path
        for route in routes
        if isinstance(route, APIRoute) and hasattr(route.endpoint, _MARK)
    )


@contextlib.asynccontextmanager
async def uploaded(request: Request, *, max_bytes: int, max_files: int) -> AsyncIterator[FormData]:
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidInput("send the files as multipart/form-data")
    counted = Request(request.scope, _counted(request.receive, max_bytes))
    async with counted.form(max_files=max_files, max_fields=20, max_part_size=4_096) as form:
        yield form


def files_of(form: FormData, name: str) -> list[UploadFile]:
    found = [one for one in form.getlist(name) if isinstance(one, UploadFile)]
    if not found:
        raise InvalidInput(f"the form has no file {name!r}")
    return found


def text_of(form: FormData, name: str, default: str) -> str:
    value = form.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not a file")
    return value


def _counted(receive: Receive, max_bytes: int) -> Receive:
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise BodyTooLarge(f"the upload has more than {max_bytes:,} bytes")
        return message

    return counted
