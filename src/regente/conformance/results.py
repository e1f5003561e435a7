"""Counts the ads of a worker's result document as a stream, without keeping them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import ijson

from regente.conformance.checks import CheckFailed

MAX_DOCUMENT_BYTES = 1 << 30


def result_url(storage_domain: str, job_id: str) -> str:
    """The contract's formula; a domain that has a scheme keeps it."""
    base = storage_domain if "://" in storage_domain else f"https://{storage_domain}"
    name = quote(job_id, safe="")
    return f"{base.rstrip('/')}/{name}/{name}_results.json"


async def count_ads(client: httpx2.AsyncClient, url: str, *, within_seconds: float) -> int:
    try:
        async with asyncio.timeout(within_seconds), client.stream("GET", url) as response:
            if response.status_code != 200:
                raise CheckFailed(f"GET {url} → {response.status_code}; expected 200")
            return await _count(response.aiter_bytes(), url)
    except (TimeoutError, httpx2.TimeoutException):
        raise CheckFailed(f"GET {url} → no complete document within {within_seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise CheckFailed(f"GET {url} → no answer: {type(error).__name__} {error}") from None


async def _count(chunks: AsyncIterator[bytes], url: str) -> int:
    events: Any = ijson.sendable_list()
    parser = ijson.parse_coro(events)
    ads, array_seen, read = 0, False, 0
    try:
        async for chunk in chunks:
            read += len(chunk)
            if read > MAX_DOCUMENT_BYTES:
                raise CheckFailed(f"GET {url} → more than {MAX_DOCUMENT_BYTES:,} bytes")
            parser.send(chunk)
            array_seen, ads = _count_events(events, array_seen, ads)
        parser.close()
        array_seen, ads = _count_events(events, array_seen, ads)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise CheckFailed(f"GET {url} → {read:,} bytes that are not JSON: {error}") from None
    if not array_seen:
        raise CheckFailed(f"GET {url} → {read:,} bytes of JSON without an `ads` array")
    return ads


def _count_events(events: Any, array_seen: bool, ads: int) -> tuple[bool, int]:
    for prefix, event, _ in events:
        if prefix == "ads" and event == "start_array":
            array_seen = True
        elif prefix == "ads.item" and event not in ("end_map", "end_array", "map_key"):
            ads += 1
    del events[:]
    return array_seen, ads


__all__ = ["count_ads", "result_url"]
