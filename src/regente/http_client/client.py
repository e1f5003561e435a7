"""One HTTP call to a service, and what went wrong with it, as a value.

Answers are capped and read as a stream: a worker may put every ad into its status. What it says
back is made storable, and a secret that it repeats is blotted out before anybody sees it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import httpx2
import ijson
from pydantic import BaseModel, ValidationError

from regente.contracts.worker import API_KEY_HEADER
from regente.engine.errors import RegenteError
from regente.engine.hooks import Call, current_observer
from regente.engine.outcome import storable

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_SKIMMED_BYTES = 1024 * 1024 * 1024
MAX_SHOWN_CHARACTERS = 300
MAX_ERROR_BYTES = 65_536
SLICE_BYTES = 65_536
MAX_DEPTH = 200
SLOW_ANSWERS = 4
"""A whole answer may take so many times the timeout: each byte on its own would keep a slow one
alive for ever."""

Answer = TypeVar("Answer", bound=BaseModel)


class CallFailure(StrEnum):
    REFUSED = "refused"
    """Nobody listens there."""
    TIMEOUT = "timeout"
    BROKEN = "broken"
    """The connection broke."""
    UNAUTHORIZED = "unauthorized"
    MISSING = "missing"
    INVALID = "invalid"
    """400, 413, 422: what we sent is not accepted."""
    THROTTLED = "throttled"
    SERVER = "server"
    PROTOCOL = "protocol"
    """The answer is not what the contract says."""


TRANSIENT = frozenset(
    {CallFailure.REFUSED, CallFailure.TIMEOUT, CallFailure.BROKEN, CallFailure.SERVER}
)
"""What a restart of the other side explains."""


class CallFailed(RegenteError):
    code = "CALL_FAILED"

    def __init__(
        self,
        failure: CallFailure,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        body: str | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.status = status
        self.retry_after = retry_after
        self.body = body
        """What an error's answer said, as far as it is kept."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A web page as it came: its address after redirects, and its text."""

    url: str
    content_type: str
    text: str


class HttpClient:
    """Shared by all calls of a process: one pool of connections."""

    def __init__(
        self,
        timeout_seconds: float = 30.0,
        blot: Callable[[str], str] = str,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._limit_seconds = SLOW_ANSWERS * timeout_seconds
        self._blot = blot
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_seconds, pool=120.0),
            limits=httpx2.Limits(
                max_connections=500, max_keepalive_connections=500, keepalive_expiry=60.0
            ),
            transport=transport,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def call(
        self,
        method: str,
        url: str,
        *,
        api_key: str | None = None,
        body: BaseModel | None = None,
        headers: dict[str, str] | None = None,
        answer: type[Answer],
    ) -> Answer:
        """The answer, checked against its model; `CallFailed` for everything else."""
        try:
            fields = await self._fields_of(method, url, api_key, body, headers)
            return self._checked(fields, answer, f"{method} {url}")
        except CallFailed as error:
            raise self._told(error) from None

    async def page(self, url: str, *, headers: dict[str, str] | None = None) -> WebPage:
        """A page of a web site, redirects followed; `CallFailed` for everything that is not one."""
        what = f"GET {url}"
        try:
            async with self._answer(
                "GET", url, headers or {}, None, follow_redirects=True
            ) as response:
                body = await _whole(response, what)
                text = storable(body.decode(response.charset_encoding or "utf-8", "replace"))
                return WebPage(str(response.url), response.headers.get("content-type", ""), text)
        except CallFailed as error:
            raise self._told(error) from None

    async def _fields_of(
        self,
        method: str,
        url: str,
        api_key: str | None,
        body: BaseModel | None,
        headers: dict[str, str] | None,
    ) -> Any:
        sent = {**(headers or {}), **({API_KEY_HEADER: api_key} if api_key is not None else {})}
        content = (
            None if body is None else body.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        async with self._answer(method, url, sent, content) as response:
            return await _fields(response, f"{method} {url}")

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        content: Any,
        *,
        follow_redirects: bool = False,
    ) -> AsyncIterator[httpx2.Response]:
        what = f"{method} {url}"
        try:
            async with asyncio.timeout(self._limit_seconds):
                with _watched(method, url) as watched:
                    async with self._client.stream(
                        method,
                        url,
                        headers=headers | watched.headers,
                        json=content,
                        follow_redirects=follow_redirects,
                    ) as response:
                        watched.answered(response.status_code)
                        await _refuse_errors(response, what)
                        yield response
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise CallFailed(
                CallFailure.TIMEOUT, f"{what}: no answer in time ({type(error).__name__})"
            ) from None
        except httpx2.ConnectError as error:
            raise CallFailed(CallFailure.REFUSED, f"{what}: cannot connect: {error}") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            raise CallFailed(CallFailure.PROTOCOL, f"{what}: {error}") from None
        except httpx2.TransportError as error:
            raise CallFailed(
                CallFailure.BROKEN,
                f"{what}: the connection broke ({type(error).__name__}: {error})",
            ) from None
        except httpx2.HTTPError as error:
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what}: {type(error).__name__}: {error}"
            ) from None

    def _told(self, error: CallFailed) -> CallFailed:
        """As anybody may read it."""
        message = self._blot(storable(error.message))
        body = None if error.body is None else self._blot(storable(error.body))
        return CallFailed(
            error.failure, message, status=error.status, retry_after=error.retry_after, body=body
        )

    def _checked(self, fields: Any, answer: type[Answer], what: str) -> Answer:
        try:
            if isinstance(fields, dict):
                fields = {
                    name: self._clean(fields[name])
                    for name in answer.model_fields
                    if name in fields
                }
            return answer.model_validate(fields)
        except RecursionError:
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what} answered something that is nested too deeply"
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"])) or "the answer"
            shown = repr(first.get("input"))[:100]
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what}: {place}: {first['msg']} (got {shown})"
            ) from None

    def _clean(self, value: Any) -> Any:
        """Every text in it as PostgreSQL can store it, without a secret of ours."""
        if isinstance(value, str):
            return self._blot(storable(value))
        if isinstance(value, list):
            return [self._clean(one) for one in value]
        if isinstance(value, dict):
            return {storable(key): self._clean(one) for key, one in value.items()}
        return value


class _NoSpan:
    headers: ClassVar[dict[str, str]] = {}

    def answered(self, status: int) -> None:
        """Nobody wants to know."""


def _watched(method: str, url: str) -> AbstractContextManager[Call]:
    observer = current_observer.get()
    return nullcontext(_NoSpan()) if observer is None else observer.call(method, url)


async def _refuse_errors(response: httpx2.Response, what: str) -> None:
    status = response.status_code
    if status < 300:
        return
    body = await _beginning(response)
    text = " ".join(body.split())[:MAX_SHOWN_CHARACTERS]
    message = f"{what} answered {status}" + (f": {text}" if text else "")
    if status == 429:
        raise CallFailed(
            CallFailure.THROTTLED,
            message,
            status=status,
            retry_after=_retry_after(response),
            body=body,
        )
    known = {401: CallFailure.UNAUTHORIZED, 403: CallFailure.UNAUTHORIZED, 404: CallFailure.MISSING}
    other = (
        CallFailure.SERVER
        if status >= 500
        else CallFailure.INVALID
        if status >= 400
        else CallFailure.PROTOCOL
    )
    raise CallFailed(known.get(status, other), message, status=status, body=body)


async def _beginning(response: httpx2.Response) -> str:
    """Enough of an error's text for a person."""
    read = b""
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > MAX_ERROR_BYTES:
            break
    return read[:MAX_ERROR_BYTES].decode("utf-8", "replace")


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds, or a date: then the server's own `Date` is what it counts from."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
        return min(max(0.0, seconds), 86_400.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        then, now = parsedate_to_datetime(value), parsedate_to_datetime(response.headers["date"])
        return min(max(0.0, (then - now).total_seconds()), 86_400.0)
    except (KeyError, ValueError, TypeError):
        return None


async def _whole(response: httpx2.Response, what: str) -> bytes:
    read = bytearray()
    async for chunk in response.aiter_bytes(SLICE_BYTES):
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what} answered more than {MAX_ANSWER_BYTES:,} bytes"
            )
    return bytes(read)


async def _fields(response: httpx2.Response, what: str) -> Any:
    chunks = response.aiter_bytes(SLICE_BYTES)
    read = bytearray()
    async for chunk in chunks:
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            return await _skimmed(bytes(read), chunks, what)
    if not read.strip():
        return {}
    try:
        return json.loads(read, parse_constant=_no_number)
    except (ValueError, RecursionError):
        shown = " ".join(
            bytes(read[: 4 * MAX_SHOWN_CHARACTERS]).decode("utf-8", "replace").split()
        )[:MAX_SHOWN_CHARACTERS]
        raise CallFailed(
            CallFailure.PROTOCOL, f"{what} answered something that is not JSON: {shown}"
        ) from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


async def _skimmed(begun: bytes, rest: AsyncIterator[bytes], what: str) -> dict[str, Any]:
    """The plain fields at the top of a large object; lists and objects in it go by unread."""
    events: list[tuple[int, str, Any]] = []
    parser = ijson.basic_parse_coro(_Depth(events))
    found: dict[str, Any] = {}
    total = 0
    try:
        for start in range(0, len(begun), SLICE_BYTES):
            parser.send(begun[start : start + SLICE_BYTES])
            _take(events, found)
            await asyncio.sleep(0)  # others have a turn
        async for chunk in rest:
            total += len(chunk)
            if total > MAX_SKIMMED_BYTES:
                raise CallFailed(
                    CallFailure.PROTOCOL, f"{what} answered more than {MAX_SKIMMED_BYTES:,} bytes"
                )
            parser.send(chunk)
            _take(events, found)
        parser.close()
    except ijson.JSONError as error:
        raise CallFailed(
            CallFailure.PROTOCOL,
            f"{what} answered {len(begun) + total:,} bytes that are not JSON: {error}",
        ) from None
    return found


class _Depth:
    """Receives the parser's events and keeps those of the outermost object."""

    def __init__(self, events: list[tuple[int, str, Any]]) -> None:
        self._events = events
        self._depth = 0

    def send(self, event: tuple[str, Any]) -> None:
        kind, value = event
        if kind in ("start_map", "start_array"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ijson.JSONError("it is nested too deeply")
        elif kind in ("end_map", "end_array"):
            self._depth -= 1
        elif self._depth == 1:
            self._events.append((self._depth, kind, value))

    def close(self) -> None:
        """Part of the protocol."""


def _take(events: list[tuple[int, str, Any]], found: dict[str, Any]) -> None:
    key: str | None = None
    while events:
        _, kind, value = events.pop(0)
        if kind == "map_key":
            key = value
            if not events:
                events.insert(
                    0, (1, kind, value)
                )  # its value is in the next chunk, or is not plain
                return
        elif key is not None:
            found[key], key = value, None
