"""Hostile request bodies: the API refuses them and goes on answering others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from datetime import date
from typing import Any

import httpx2
import pytest

from regente import Regente
from regente.api.access.middleware import OPEN_FOLDERS, OPEN_PATHS, SIGN_IN
from regente.api.app import create_app
from regente.api.limits import OPEN_BODY_BYTES, check_nesting
from regente.engine.errors import InvalidInput
from regente.pipelines.missions.args import count_missions, missions_of
from tests.api.conftest import Served, body_of
from tests.api.test_every_route import concrete, operations

MEBIBYTE = 2**20
HOSTILE = {
    "an unclosed string of escaped quotes": b'"' + b'\\"' * MEBIBYTE,
    "an unclosed string after each quote": b'"a\\' * MEBIBYTE,
    "backslashes alone": b'"' + b"\\" * (2 * MEBIBYTE + 1),
    "quotes": b'"' * 2 * MEBIBYTE,
    "empty strings": b'["' + b'","' * 600_000 + b'"]',
    "deep": b"[" * 3 * MEBIBYTE,
    "up and down": b"[" + b"[]," * MEBIBYTE + b"[]]",
    "a long number": b"9" * 3 * MEBIBYTE,
    "a long fraction": b"0." + b"1" * 3 * MEBIBYTE,
    "a large exponent": b"1e" + b"9" * MEBIBYTE,
    "invalid UTF-8": b'"' + b"\xff\xfe\xc0" * MEBIBYTE + b'"',
    "an unclosed object": b'{"token": "' + b"a" * 3 * MEBIBYTE,
}
JSON = {"content-type": "application/json"}
OPEN_TARGETS = (
    SIGN_IN,
    *(("POST", path) for path in sorted(OPEN_PATHS)),
    *(("POST", f"{folder}missions") for folder in OPEN_FOLDERS),
)
OPEN_READS = (
    *(("GET", path) for path in sorted(OPEN_PATHS)),
    *(("GET", f"{folder}page.css") for folder in OPEN_FOLDERS),
    ("GET", "/"),
    ("GET", "/api/session/providers"),
    ("GET", "/api/missions"),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_depth_check_is_linear_in_the_length(name: str) -> None:
    """O18: 120 kB take milliseconds; in quadratic time they would take half a minute."""
    started = time.thread_time()
    check_nesting(HOSTILE[name][:120_000], 120_000)
    assert time.thread_time() - started < 2.0


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_body_without_a_key_holds_nobody_up(api: Served, name: str) -> None:
    """O18: each open route takes 4 kB, and the health check goes on answering."""
    for method, path in OPEN_TARGETS:
        for body in (HOSTILE[name], HOSTILE[name][:OPEN_BODY_BYTES]):
            sent = api.anonymous.request(method, path, content=body, headers=JSON)
            refused, longest = await _watched(api, sent)
            assert 400 <= refused.status_code < 500, refused.text
            if len(body) > OPEN_BODY_BYTES and (method, path) == SIGN_IN:
                assert refused.json()["code"] == "BODY_TOO_LARGE"
            assert longest < 0.2


LONG = 60_000
"""Nearly all that a server takes as headers."""
HOSTILE_HEADERS = {
    "a cookie of backslashes": ("cookie", 'a="' + "\\" * LONG + '"'),
    "a cookie of escapes": ("cookie", 'a="' + "\\0" * (LONG // 2) + '"'),
    "a cookie of octal escapes": ("cookie", 'a=1; b="' + "\\101" * (LONG // 4) + '"'),
    "many cookies": ("cookie", "a=b;" * (LONG // 4)),
    "quotes": ("cookie", '"' * LONG),
    "many ranges": ("range", "bytes=" + "0-0," * (LONG // 4) + "1-1"),
    "many ranges backwards": ("range", "bytes=" + ",".join(f"{n}-" for n in range(9000, 0, -1))),
    "tags": ("if-none-match", 'W/"a",' * (LONG // 6)),
    "parameters of a content type": ("content-type", "application/json;" + ' a="' * (LONG // 4)),
    "a quoted parameter": ("content-type", 'application/json; a="' + ";" * LONG),
    "a multipart boundary": ("content-type", "multipart/form-data; boundary=" + "-" * LONG),
    "encodings": ("accept-encoding", "gzip;q=0.1," * (LONG // 11)),
    "types": ("accept", "text/html;q=0.1," * (LONG // 16)),
    "addresses": ("x-forwarded-for", "127.0.0.1," * (LONG // 10)),
    "a key": ("x-api-key", "rg_" + "A" * LONG),
    "an id": ("x-request-id", "a" * LONG + "!"),
    "a position": ("last-event-id", "1" * LONG + "-"),
    "a date": ("if-modified-since", "Mon," * (LONG // 4)),
}


@pytest.mark.parametrize("name", HOSTILE_HEADERS)
async def test_a_hostile_header_without_a_key_is_read_in_linear_time(
    api: Served, name: str
) -> None:
    """O18: on each open route, and on one that needs a key."""
    header, value = HOSTILE_HEADERS[name]
    headers = {"content-type": "application/json", header: value}
    for method, path in (*OPEN_TARGETS, *OPEN_READS):
        sent = api.anonymous.request(method, path, content=b"{}", headers=headers)
        answered, longest = await _watched(api, sent)
        assert answered.status_code < 500, (method, path, answered.text)
        assert longest < 0.2, (method, path)


async def test_a_session_is_known_beside_a_cookie_with_escapes(api: Served) -> None:
    """O18: other applications of the same host may set one."""
    key = api.viewer.headers["x-api-key"]
    made = await api.anonymous.post("/api/session", json={"api_key": key})
    session = made.headers["set-cookie"].partition(";")[0]
    for cookies in (f'other="a\\054b"; {session}', f'{session}; other="a\\054b"'):
        api.anonymous.cookies.clear()
        answered = await api.anonymous.get("/api/missions", headers={"cookie": cookies})
        assert answered.status_code == 200, cookies


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_body_with_a_key_is_refused_beside_others(api: Served, name: str) -> None:
    """O18: 4 MB may cost the time to parse them once, which is bounded."""
    sent = api.operator.post("/api/missions", content=HOSTILE[name], headers=JSON)
    refused, longest = await _watched(api, sent)
    assert 400 <= refused.status_code < 500, refused.text
    assert longest < 3.0


MANY_NAMES = b"{" + b",".join(b'"n%d":1' % number for number in range(60_000)) + b"}"
MANY_OBJECTS = b"[" + b"{}," * 60_000 + b"{}]"


async def test_an_answer_names_few_of_many_mistakes(api: Served, app: Regente) -> None:
    """O18: 60,000 unknown names in each object of each body, and as many wrong items in each list,
    cost no second of the event loop and no answer of megabytes."""
    document, seen = create_app(app).openapi(), 0
    for method, path, operation in operations(document):
        for body in _crowded(document, operation):
            sent = api.admin.request(method, concrete(path), content=body, headers=JSON)
            refused, longest = await _watched(api, sent)
            assert 400 <= refused.status_code < 500, (path, body[:50], refused.text[:200])
            assert len(refused.content) < 100_000, (path, body[:50])
            assert longest < 1.0, (path, body[:50])
            seen += 1
    assert seen > 100


def _crowded(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[bytes]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return
    yield MANY_NAMES
    for name, field in _fields(document, content["schema"]):
        kinds = [one.get("type") for one in (field, *field.get("anyOf", ()))]
        if None in kinds or "array" in kinds:  # an object has a reference in place of a type
            yield b'{"%s":%s}' % (name.encode(), MANY_NAMES)
            yield b'{"%s":%s}' % (name.encode(), MANY_OBJECTS)


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    yield from schema.get("properties", {}).items()
    for choice in schema.get("anyOf", ()):
        yield from _fields(document, choice)


async def test_ranges_of_all_days_are_counted_without_making_them(api: Served) -> None:
    """O18: 0001-01-01 to 9999-12-31 is refused at once, and the last day does not overflow."""
    everything = {
        "date_start": "0001-01-01",
        "date_end": "9999-12-31",
        "media_types": ["video"],
        "languages": [["pt"]],
    }
    for dry_run in (True, False):
        sent = api.operator.post("/api/missions", json={"range": everything, "dry_run": dry_run})
        refused, longest = await _watched(api, sent)
        assert "3,652,059 missions" in refused.text
        assert refused.status_code == 422
        assert longest < 0.2
    last = {**everything, "date_start": "9999-12-30"}
    made = body_of(await api.operator.post("/api/missions", json={"range": last}), 201)
    assert made["count"] == 2


def test_the_count_agrees_with_what_is_made() -> None:
    """O18: for ranges with and without a shorter last piece, up to the last day that there is."""
    start = date(9999, 12, 1)
    for days_each in (1, 2, 7, 30, 31, 32, 3660):
        made = missions_of(
            start, date.max, ["video", "image"], [["pt"], ["en"]], days_each=days_each
        )
        counted = count_missions(
            start, date.max, ["video", "image"], [["pt"], ["en"]], days_each=days_each
        )
        assert len(made) == counted
        assert (made[0].date_start, made[-1].date_end) == (start, date.max)
        pieces = sorted({(one.date_start, one.date_end) for one in made})
        assert sum((last - first).days + 1 for first, last in pieces) == 31
    with pytest.raises(InvalidInput, match="before it starts"):
        count_missions(date(2025, 1, 2), date(2025, 1, 1), ["video"], [["pt"]])
    with pytest.raises(InvalidInput, match="at least one day"):
        count_missions(start, start, ["video"], [["pt"]], days_each=0)


async def _watched(api: Served, sent: Awaitable[httpx2.Response]) -> tuple[httpx2.Response, float]:
    """The response, and the longest time that the event loop worked during a health check: other
    processes of a busy machine do not count."""
    sending = asyncio.ensure_future(sent)
    longest = 0.0
    while True:
        started = time.thread_time()
        assert (await api.anonymous.get("/api/health")).status_code == 200
        longest = max(longest, time.thread_time() - started)
        if sending.done():
            return await sending, longest
