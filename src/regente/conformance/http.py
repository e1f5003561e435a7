"""Sends one request and returns its reply, bounded in time and size; failures never raise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from regente.conformance.checks import CheckFailed, hide_secrets
from regente.contracts.worker import API_KEY_HEADER

MAX_REPLY_BYTES = 1 << 20
_SENT_CHARACTERS = 240
_RECEIVED_CHARACTERS = 200
_INSPECTED_BYTES = 64 << 10
_MAX_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply; `failure` says why there is none: no connection, too slow, too large."""

    sent: str
    status: int | None = None
    body: bytes = b""
    failure: str | None = None
    retry_after_seconds: float = 0.0
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        received = self.failure or f"{self.status} {_shown(self.body, self.secrets)}".rstrip()
        return f"{self.sent} → {received}"

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def expect(self, *statuses: int) -> Reply:
        if self.status not in statuses or self.failure:
            raise CheckFailed(f"{self}; expected {' or '.join(map(str, statuses))}")
        return self

    def expect_accepted(self) -> Reply:
        if not self.accepted or self.failure:
            raise CheckFailed(f"{self}; expected 200")
        return self

    def document(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            raise CheckFailed(f"{self}; expected a JSON object, this is not JSON") from None
        if not isinstance(found, dict):
            raise CheckFailed(f"{self}; expected a JSON object")
        return found


@dataclass(frozen=True, slots=True)
class Service:
    """The examined service. Redirects are not followed: a redirect is its reply."""

    client: httpx2.AsyncClient = field(repr=False)
    url: str
    key: str | None = field(repr=False)
    request_seconds: float
    secrets: tuple[str, ...] = field(repr=False)
    note: str = ""

    def with_key(self, key: str | None, note: str) -> Service:
        return replace(self, key=key, note=f" ({note})")

    async def get(self, path: str, *, max_bytes: int = MAX_REPLY_BYTES) -> Reply:
        return await self._send("GET", path, max_bytes=max_bytes)

    async def delete(self, path: str) -> Reply:
        return await self._send("DELETE", path)

    async def post(
        self, path: str, payload: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        if payload is None:
            return await self._send("POST", path, headers=headers or {})
        text = json.dumps(payload, ensure_ascii=False)
        return await self.post_text(path, text, headers=headers)

    async def post_text(
        self, path: str, text: str, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        json_headers = {"content-type": "application/json", **(headers or {})}
        return await self._send("POST", path, content=text.encode(), headers=json_headers)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> Reply:
        """Send; on a 429 with Retry-After (9.3) wait for that long and send once more."""
        reply = await self._send_once(method, path, content, headers or {}, max_bytes)
        if reply.status != 429 or not 0 < reply.retry_after_seconds <= _MAX_WAIT_SECONDS:
            return reply
        await asyncio.sleep(reply.retry_after_seconds)
        return await self._send_once(method, path, content, headers or {}, max_bytes)

    async def _send_once(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str], max_bytes: int
    ) -> Reply:
        sent = (
            f"{method} {path}{self.note} {_shown(content, self.secrets, _SENT_CHARACTERS)}".rstrip()
        )
        all_headers = dict(headers) if self.key is None else {**headers, API_KEY_HEADER: self.key}
        try:
            async with asyncio.timeout(self.request_seconds):
                request = self.client.stream(
                    method, f"{self.url}{path}", content=content or None, headers=all_headers
                )
                async with request as response:
                    return replace(await _read(response, sent, max_bytes), secrets=self.secrets)
        except (TimeoutError, httpx2.TimeoutException):
            return Reply(sent, failure=f"no complete answer within {self.request_seconds:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            return Reply(sent, failure=f"no answer: {type(error).__name__} {error}".rstrip())


async def _read(response: httpx2.Response, sent: str, max_bytes: int) -> Reply:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            return Reply(
                sent,
                response.status_code,
                failure=f"{response.status_code} with more than {max_bytes:,} bytes",
            )
    return Reply(
        sent,
        response.status_code,
        bytes(body),
        retry_after_seconds=_seconds(response.headers.get("retry-after")),
    )


def _seconds(retry_after: str | None) -> float:
    return (
        float(retry_after)
        if retry_after and retry_after.isascii() and retry_after.isdigit()
        else 0.0
    )


def _shown(content: bytes, secrets: tuple[str, ...], limit: int = _RECEIVED_CHARACTERS) -> str:
    """Return the beginning on one line; secrets are hidden before the cut."""
    text = " ".join(
        hide_secrets(secrets, content[:_INSPECTED_BYTES].decode("utf-8", "replace")).split()
    )
    return text if len(text) <= limit else f"{text[:limit]}… ({len(content):,} bytes)"


def checked_url(url: str) -> str:
    """Return the URL without its last slash; raises ValueError for an unusable one."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(
            f"{url!r} is not the URL of a service: it starts with http:// or https:// and "
            "names a host"
        )
    if parsed.userinfo:
        raise ValueError("the URL holds a user or a password, which would appear in the evidence")
    if parsed.query or parsed.fragment:
        raise ValueError(f"{url!r} has a query or a fragment: give the base URL of the routes")
    return url.rstrip("/")


@asynccontextmanager
async def open_service(
    url: str, key: str, request_seconds: float, secrets: tuple[str, ...]
) -> AsyncIterator[Service]:
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("the key is empty or has characters that a header cannot carry")
    timeout = httpx2.Timeout(request_seconds)
    # A new connection for every request, so that a broken one does not affect the next check.
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as client:
        yield Service(client, checked_url(url), key, request_seconds, secrets)


__all__ = ["MAX_REPLY_BYTES", "Reply", "Service", "checked_url", "open_service"]
