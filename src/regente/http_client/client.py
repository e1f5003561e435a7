"""One HTTP call to a service; a failed one raises CallFailed with its kind.

Responses are bounded and read as a stream: a worker may put every ad into its status
(`large_json.py`). Their texts are made storable and secrets in them are masked.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from regente.compression import ACCEPTED, NotDecodable, decompressed
from regente.contracts.worker import API_KEY_HEADER
from regente.engine.errors import RegenteError
from regente.engine.hooks import Call, current_observer
from regente.engine.outcome import storable
from regente.http_client.large_json import LargeObject, NotReadable

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_ANSWER_PARTS = 100_000
"""Lists and objects in the fields that are wanted; each becomes an object of a model."""
MAX_SHOWN_CHARACTERS = 300
MAX_ERROR_BYTES = 65_536
CHUNK_BYTES = 65_536
MAX_TIMEOUTS_PER_ANSWER = 4
"""A complete response may take this many timeouts; each byte restarts the timeout."""

_CHARSET = re.compile(r"charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_PAGE_CODECS = re.compile(
    r"ascii|utf-(8|16|16-le|16-be)|cp125\d|cp(437|85\d|866|874|932|949|950)|iso8859-\d+|koi8-[ru]"
    r"|mac-(roman|cyrillic)|big5|gbk|gb2312|gb18030|euc_(jp|kr)|shift_jis|iso2022_jp"
)
"""Of web pages. Python has others, some of which take hours for a page: `charset=punycode`."""

Answer = TypeVar("Answer", bound=BaseModel)


class CallFailure(StrEnum):
    REFUSED = "refused"
    """No server listens there."""
    TIMEOUT = "timeout"
    BROKEN = "broken"
    """The connection broke."""
    UNAUTHORIZED = "unauthorized"
    MISSING = "missing"
    INVALID = "invalid"
    """400, 413, 422: the service refuses the request's content."""
    THROTTLED = "throttled"
    SERVER = "server"
    PROTOCOL = "protocol"
    """The response breaks the contract."""


TRANSIENT = frozenset(
    {CallFailure.REFUSED, CallFailure.TIMEOUT, CallFailure.BROKEN, CallFailure.SERVER}
)
"""Failures that a restart of the service explains."""
_ANSWER_LOST = frozenset({CallFailure.TIMEOUT, CallFailure.BROKEN, CallFailure.PROTOCOL})


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
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.sent = sent
        """False if the service cannot have got the request."""
        self.status = status
        self.retry_after = retry_after
        self.body = body
        """The text of an error response, up to MAX_ERROR_BYTES."""

    @property
    def lost_answer(self) -> bool:
        """True if the service may have done what was asked, and its answer is not known."""
        return self.sent and self.status is None and self.failure in _ANSWER_LOST

    @property
    def may_have_acted(self) -> bool:
        """True if its answer is lost, or if it (or a gateway before it) failed while answering. 503
        says that the request was not handled."""
        failed = self.failure is CallFailure.SERVER and self.status != 503
        return self.lost_answer or failed


@dataclass(frozen=True, slots=True)
class WebPage:
    """A web page: its URL after redirects, and its text."""

    url: str
    content_type: str
    text: str


class HttpClient:
    """An HTTP client with one connection pool, shared by all calls of a process."""

    def __init__(
        self,
        timeout_seconds: float = 30.0,
        mask: Callable[[str], str] = str,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._limit_seconds = MAX_TIMEOUTS_PER_ANSWER * timeout_seconds
        self._mask = mask
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_seconds, pool=120.0),
            limits=httpx2.Limits(
                max_connections=500, max_keepalive_connections=500, keepalive_expiry=60.0
            ),
            transport=transport,
            headers={"accept-encoding": ACCEPTED},
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
        """Call the service and return its validated response; any failure raises CallFailed."""
        try:
            fields = await self._fields_of(method, url, api_key, body, headers, answer)
            return self._validated(fields, answer, f"{method} {url}")
        except CallFailed as error:
            raise self._masked(error) from None

    async def page(self, url: str, *, headers: dict[str, str] | None = None) -> WebPage:
        """Fetch a web page, following redirects; any failure raises CallFailed."""
        what = f"GET {url}"
        try:
            async with self._answer(
                "GET", url, headers or {}, None, follow_redirects=True
            ) as response:
                body = await _read_page(response, what)
                content_type = response.headers.get("content-type", "")[:MAX_SHOWN_CHARACTERS]
                text = storable(body.decode(_codec_of(content_type), "replace"))
                return WebPage(str(response.url), content_type, text)
        except CallFailed as error:
            raise self._masked(error) from None

    async def _fields_of(
        self,
        method: str,
        url: str,
        api_key: str | None,
        body: BaseModel | None,
        headers: dict[str, str] | None,
        answer: type[BaseModel],
    ) -> Any:
        sent = {**(headers or {}), **({API_KEY_HEADER: api_key} if api_key is not None else {})}
        content = (
            None if body is None else body.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        async with self._answer(method, url, sent, content) as response:
            return await _read_json(response, f"{method} {url}", answer.model_fields.keys())

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
                with _observed_call(method, url) as call_span:
                    async with self._client.stream(
                        method,
                        url,
                        headers=headers | call_span.headers,
                        json=content,
                        follow_redirects=follow_redirects,
                    ) as response:
                        call_span.answered(response.status_code)
                        await _refuse_errors(response, what)
                        yield response
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise CallFailed(
                CallFailure.TIMEOUT,
                f"{what}: no answer in time ({type(error).__name__})",
                sent=not isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout),
            ) from None
        except httpx2.ConnectError as error:
            raise CallFailed(CallFailure.REFUSED, f"{what}: cannot connect: {error}") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            raise CallFailed(CallFailure.PROTOCOL, f"{what}: {error}", sent=False) from None
        except httpx2.TransportError as error:
            raise CallFailed(
                CallFailure.BROKEN,
                f"{what}: the connection broke ({type(error).__name__}: {error})",
            ) from None
        except httpx2.HTTPError as error:
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what}: {type(error).__name__}: {error}"
            ) from None

    def _masked(self, error: CallFailed) -> CallFailed:
        """Return the error with storable texts and masked secrets."""
        message = self._mask(storable(error.message))
        body = None if error.body is None else self._mask(storable(error.body))
        return CallFailed(
            error.failure,
            message,
            status=error.status,
            retry_after=error.retry_after,
            body=body,
            sent=error.sent,
        )

    def _validated(self, fields: Any, answer: type[Answer], what: str) -> Answer:
        try:
            if isinstance(fields, dict):
                fields = {
                    name: self._storable(fields[name])
                    for name in answer.model_fields
                    if name in fields
                }
            _refuse_many_parts(fields, what)
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

    def _storable(self, value: Any) -> Any:
        """Return the value with storable texts and masked secrets."""
        if isinstance(value, str):
            return self._mask(storable(value))
        if isinstance(value, list):
            return [self._storable(one) for one in value]
        if isinstance(value, dict):
            return {storable(key): self._storable(one) for key, one in value.items()}
        return value


def _refuse_many_parts(fields: Any, what: str) -> None:
    waiting: list[Any] = [[fields]]
    count = 0
    while waiting:
        one = waiting.pop()
        items = one.values() if isinstance(one, dict) else one
        waiting.extend(item for item in items if isinstance(item, dict | list))
        count += 1
        if count > MAX_ANSWER_PARTS:
            raise CallFailed(
                CallFailure.PROTOCOL,
                f"{what} answered more than {MAX_ANSWER_PARTS:,} lists and objects",
            )


class _NoCall:
    headers: ClassVar[dict[str, str]] = {}

    def answered(self, status: int) -> None:
        """Do nothing: there is no observer."""


def _observed_call(method: str, url: str) -> AbstractContextManager[Call]:
    observer = current_observer.get()
    return nullcontext(_NoCall()) if observer is None else observer.call(method, url)


async def _refuse_errors(response: httpx2.Response, what: str) -> None:
    status = response.status_code
    if status < 300:
        return
    body = await _error_text(response, what)
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


async def _body(response: httpx2.Response, what: str) -> AsyncIterator[bytes]:
    raw = response.aiter_raw(CHUNK_BYTES)
    try:
        async for piece in decompressed(raw, response.headers, piece_bytes=CHUNK_BYTES):
            yield piece
    except NotDecodable as error:
        raise CallFailed(CallFailure.PROTOCOL, f"{what}: the answer {error}") from None


async def _error_text(response: httpx2.Response, what: str) -> str:
    """Read the first MAX_ERROR_BYTES of an error response."""
    read = b""
    with suppress(CallFailed):  # its status counts, not its text
        async for chunk in _body(response, what):
            read += chunk
            if len(read) > MAX_ERROR_BYTES:
                break
    return read[:MAX_ERROR_BYTES].decode("utf-8", "replace")


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds of Retry-After; a date counts from the server's own `Date`."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
        return min(max(0.0, seconds), 86_400.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        until, now = parsedate_to_datetime(value), parsedate_to_datetime(response.headers["date"])
        return min(max(0.0, (until - now).total_seconds()), 86_400.0)
    except (KeyError, ValueError, TypeError):
        return None


async def _read_page(response: httpx2.Response, what: str) -> bytes:
    read = bytearray()
    async for chunk in _body(response, what):
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            raise CallFailed(
                CallFailure.PROTOCOL, f"{what} answered more than {MAX_ANSWER_BYTES:,} bytes"
            )
    return bytes(read)


def _codec_of(content_type: str) -> str:
    """The codec of a page's charset; UTF-8 for one that web pages do not have."""
    named = _CHARSET.search(content_type)
    try:
        codec = codecs.lookup(named[1] if named else "utf-8").name
    except LookupError:
        return "utf-8"
    return codec if _PAGE_CODECS.fullmatch(codec) else "utf-8"


async def _read_json(response: httpx2.Response, what: str, names: Collection[str]) -> Any:
    chunks = _body(response, what)
    read = bytearray()
    async for chunk in chunks:
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            return await _read_large(bytes(read), chunks, what, names)
    if not read.strip():
        return {}
    try:
        return json.loads(read, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        shown = " ".join(
            bytes(read[: 4 * MAX_SHOWN_CHARACTERS]).decode("utf-8", "replace").split()
        )[:MAX_SHOWN_CHARACTERS]
        raise CallFailed(
            CallFailure.PROTOCOL, f"{what} answered something that is not JSON: {shown}"
        ) from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


async def _read_large(
    first_bytes: bytes, rest: AsyncIterator[bytes], what: str, names: Collection[str]
) -> dict[str, Any]:
    """The plain top-level fields of an object that is too large to be kept."""
    fields = LargeObject(names)
    try:
        for start in range(0, len(first_bytes), CHUNK_BYTES):
            fields.read(first_bytes[start : start + CHUNK_BYTES])
            await asyncio.sleep(0)  # let other tasks run
        async for chunk in rest:
            fields.read(chunk)
        return fields.end()
    except NotReadable as error:
        raise CallFailed(CallFailure.PROTOCOL, f"{what} answered {error}") from None
