"""O21: injected faults, by proxy, filter and count; in code and over HTTP."""

from __future__ import annotations

import time

import httpx2
import pytest
from curl_cffi.requests.exceptions import IncompleteRead, Timeout
from pydantic import ValidationError

from regente.services.sandbox import Fault, FaultInjector, FaultKind, Sandbox
from regente.services.sandbox.faults import ObservedRequest
from tests.services.sandbox.conftest import Visitor

SEARCH = "/ads?start=2025-01-10&end=2025-01-12&languages=pt"


async def test_answers_with_a_status(sandbox: Sandbox, visitor: Visitor) -> None:
    sandbox.break_with(FaultKind.THROTTLED, retry_after=17, count=1)
    sandbox.break_with(FaultKind.UNAVAILABLE, status=502, count=1)
    sandbox.break_with(FaultKind.BLOCKED, count=1)
    answers = [await visitor.get(SEARCH) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 502, 403, 200]
    assert answers[0].headers["retry-after"] == "17"


async def test_answers_that_never_come_or_come_slowly(sandbox: Sandbox, visitor: Visitor) -> None:
    sandbox.break_with(FaultKind.HANG, count=1)
    with pytest.raises(Timeout):
        await visitor.http.get(sandbox.library_url + SEARCH, timeout=0.2)
    whole = (await visitor.get(SEARCH)).text
    sandbox.break_with(FaultKind.DRIP, seconds=0.5, count=1)
    began = time.monotonic()
    assert (await visitor.get(SEARCH)).text == whole
    assert time.monotonic() - began >= 0.5


async def test_answers_that_are_not_whole(sandbox: Sandbox, visitor: Visitor) -> None:
    whole = (await visitor.get(SEARCH)).content
    sandbox.break_with(FaultKind.TRUNCATED, count=1)
    assert (await visitor.get(SEARCH)).content == whole[: len(whole) // 2]
    sandbox.break_with(FaultKind.CUT_OFF, count=1)
    with pytest.raises(IncompleteRead):
        await visitor.get(SEARCH)
    sandbox.break_with(FaultKind.LAYOUT, count=1)
    assert "article" not in (await visitor.get(SEARCH)).text


async def test_a_session_may_be_stuck_and_the_next_one_is_not(
    sandbox: Sandbox, visitor: Visitor
) -> None:
    sandbox.break_with(FaultKind.STUCK_SESSION, count=1)
    await visitor.get("/session")
    with pytest.raises(Timeout):
        await visitor.http.get(sandbox.library_url + SEARCH, timeout=0.2)
    await visitor.get("/session")
    assert (await visitor.get(SEARCH)).status_code == 200


async def test_faults_are_scoped(sandbox: Sandbox, visitor: Visitor) -> None:
    for scope in (
        {"proxy": "proxy-2"},
        {"day": "2025-02-01"},
        {"format": "video"},
        {"language": "en"},
        {"path": "/home"},
    ):
        sandbox.break_with(FaultKind.UNAVAILABLE, **scope)
    sandbox.break_with(FaultKind.UNAVAILABLE, from_page=2)
    assert (await visitor.get(SEARCH)).status_code == 200
    assert (await visitor.get(SEARCH + ",en")).status_code == 503
    assert (await visitor.get(SEARCH + "&format=video")).status_code == 503
    assert (await visitor.get(SEARCH + "&page=2")).status_code == 503
    assert (await visitor.get(SEARCH.replace("01-12", "02-12"))).status_code == 503
    assert (await visitor.get("/home")).status_code == 503


async def test_faults_are_switched_over_http(sandbox: Sandbox, visitor: Visitor) -> None:
    async with httpx2.AsyncClient(base_url=sandbox.library_url) as admin:
        fault = (
            await admin.post("/admin/faults", json={"kind": "unavailable", "status": 500})
        ).json()["id"]
        assert (await visitor.get(SEARCH)).status_code == 500
        assert [one["id"] for one in (await admin.get("/admin/faults")).json()["faults"]] == [fault]
        assert (await admin.delete(f"/admin/faults/{fault}")).json() == {"cleared": 1}
        assert (await admin.delete(f"/admin/faults/{fault}")).status_code == 404
        assert (await visitor.get(SEARCH)).status_code == 200
        assert (await admin.post("/admin/faults", json={"kind": "gremlins"})).status_code == 422


def test_chance_follows_from_the_seed() -> None:
    def history(seed: int) -> list[bool]:
        injector = FaultInjector(seed)
        injector.add(Fault(kind=FaultKind.HANG, chance=0.5))
        return [
            injector.take_match(ObservedRequest(None, "/ads"), by_proxy=False) is not None
            for _ in range(50)
        ]

    assert history(1) == history(1) != history(2)
    assert 10 < sum(history(1)) < 40


def test_a_fault_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValidationError, match="never seen"):
        Fault(kind=FaultKind.PROXY_REFUSED, count=3)
    with pytest.raises(ValidationError, match="before the filter is known"):
        Fault(kind=FaultKind.PROXY_407, language="pt")
