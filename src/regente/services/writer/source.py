"""Streams the document of a job; request headers are never logged or kept."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx2

from regente.address_guard import AddressRefused, GuardedTransport, check_url
from regente.compression import ACCEPTED, NotDecodable, decompressed
from regente.services.writer.config import WriterConfig
from regente.services.writer.failures import JobFailure, SourceError, WriterCode, first_line

T = TypeVar("T")

MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_TRANSIENT_STATUSES = {408, 425, 429}
# Headers that the client sets itself, or that describe a body.
_OWN_HEADERS = {
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "range",
    "if-range",
}


@dataclass(frozen=True, slots=True)
class Version:
    """Identifies a document between two reads."""

    etag: str | None = None
    length: int | None = None

    def differs_from(self, other: Version) -> str | None:
        if self.etag and other.etag and self.etag != other.etag:
            return "its ETag differs"
        if self.length is not None and other.length is not None and self.length != other.length:
            return f"it had {other.length:,} bytes and now has {self.length:,}"
        return None


class OpenSource:
    def __init__(self, response: httpx2.Response, limit_bytes: int, pace: Pace) -> None:
        self._response = response
        self._limit_bytes = limit_bytes
        self._pace = pace
        length = response.headers.get("content-length", "")
        self.version = Version(
            response.headers.get("etag"), int(length) if length.isdigit() else None
        )

    async def chunks(self) -> AsyncGenerator[bytes]:
        taken = 0
        with source_errors():
            raw = self._pace.watch(self._response.aiter_raw())
            async for chunk in decompressed(raw, self._response.headers):
                taken += len(chunk)
                if taken > self._limit_bytes:
                    raise JobFailure(
                        WriterCode.STORAGE, f"the source is larger than {self._limit_bytes:,} bytes"
                    )
                yield chunk


class Sources:
    def __init__(self, config: WriterConfig) -> None:
        self._config = config
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(
                allow_private=config.allow_private, connections=config.concurrent_jobs + 1
            ),
            timeout=httpx2.Timeout(config.read_seconds, connect=config.connect_seconds),
            headers={
                "user-agent": "regente-writer",
                "accept": "application/json",
                "accept-encoding": ACCEPTED,
            },
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    @contextlib.asynccontextmanager
    async def open(
        self, url: str, headers: Mapping[str, str], pace: Pace
    ) -> AsyncIterator[OpenSource]:
        """Open the document. Each redirect is checked; the job's headers go to the first origin
        only."""
        origin = _origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            with source_errors():
                check_url(url, allow_private=self._config.allow_private)
            sent = {
                name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS
            }
            asked = self._get(url, sent if _origin(url) == origin else {})
            response = await pace.answer(asked)
            try:
                if response.status_code not in _REDIRECTS:
                    _check_response(response)
                    yield OpenSource(response, self._config.source_bytes, pace)
                    return
                url = urljoin(url, response.headers.get("location", ""))
            finally:
                await response.aclose()
        raise JobFailure(
            WriterCode.STORAGE, f"the source redirects more than {MAX_REDIRECTS} times"
        )

    async def _get(self, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        with source_errors():
            try:
                request = self._client.build_request("GET", url, headers=headers)
            except (httpx2.InvalidURL, ValueError, TypeError):
                # The error would quote a header's value.
                raise JobFailure(WriterCode.GENERIC, "the URL or a header cannot be sent") from None
            return await self._client.send(request, stream=True)


def safe_url(url: str) -> str:
    """The URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@contextlib.contextmanager
def source_errors() -> Iterator[None]:
    try:
        yield
    except AddressRefused as error:
        raise JobFailure(WriterCode.GENERIC, error.message) from None
    except NotDecodable as error:
        raise JobFailure(WriterCode.STORAGE, f"the source {error}") from None
    except httpx2.TimeoutException as error:
        kind = "connect" if isinstance(error, httpx2.ConnectTimeout) else "answer"
        raise SourceError(WriterCode.TIMEOUT, f"the source did not {kind} in time") from None
    except httpx2.ConnectError as error:
        raise SourceError(
            WriterCode.REFUSED, f"cannot connect to the source: {first_line(error)}"
        ) from None
    except httpx2.LocalProtocolError:
        raise JobFailure(WriterCode.GENERIC, "the URL or a header cannot be sent") from None
    except httpx2.TransportError as error:
        raise SourceError(
            WriterCode.STORAGE, f"the connection to the source broke: {first_line(error)}"
        ) from None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _check_response(response: httpx2.Response) -> None:
    status = response.status_code
    if status in (401, 403):
        raise JobFailure(
            WriterCode.CREDENTIALS, f"the source refuses the credentials: HTTP {status}"
        )
    if status in _TRANSIENT_STATUSES or status >= 500:
        raise SourceError(WriterCode.STORAGE, f"the source answers HTTP {status}")
    if status != 200:
        raise JobFailure(WriterCode.STORAGE, f"the source answers HTTP {status}")
    if response.headers.get("content-type", "").lower().startswith("text/html"):
        raise JobFailure(WriterCode.STORAGE, "the source answered HTML, not JSON")


class Pace:
    """Ends a source that drips: each byte comes in time, but all of them never would. Only the time
    spent waiting for the source counts, not that of storing."""

    def __init__(self, config: WriterConfig) -> None:
        self._config = config
        self._waited_seconds = 0.0
        """In all reads of the job."""

    async def answer(self, asked: Awaitable[T]) -> T:
        """What is awaited: the headers of an answer."""
        seconds = self._config.connect_seconds + 2 * self._config.read_seconds
        return await self._within(seconds, asked)

    async def watch(self, raw: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks."""
        grace, least = self._config.read_seconds, self._config.least_bytes_per_second
        before, taken = self._waited_seconds, 0
        while True:
            waited, allowed = self._waited_seconds - before, max(grace, taken / least)
            if waited > allowed:
                raise _too_slow(f"sent {taken:,} bytes in {waited:.0f} s")
            # A source that is silent for `grace` ends by the client's own timeout, and is retried.
            chunk = await self._within(allowed - waited + 2 * grace, anext(raw, None))
            if chunk is None:
                return
            taken += len(chunk)
            yield chunk

    async def _within(self, seconds: float, coming: Awaitable[T]) -> T:
        began = time.monotonic()
        left = self._config.source_seconds - self._waited_seconds
        try:
            async with asyncio.timeout(min(seconds, left)):
                return await coming
        except TimeoutError:
            limit = self._config.source_seconds if left < seconds else seconds
            raise _too_slow(f"was waited for longer than {limit:.0f} s") from None
        finally:
            self._waited_seconds += time.monotonic() - began


def _too_slow(what: str) -> JobFailure:
    return JobFailure(WriterCode.TIMEOUT, f"the source {what}")
