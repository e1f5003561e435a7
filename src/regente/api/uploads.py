"""Files in a form, read as they come: counted, spooled to disk when they are large, and closed
whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from regente.api.errors import BodyTooLarge
from regente.engine.errors import InvalidInput


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
        raise InvalidInput(f"the form holds no file called {name!r}")
    return found


def text_of(form: FormData, name: str, default: str) -> str:
    value = form.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is a text, not a file")
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
