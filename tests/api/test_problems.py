"""Errors as problem details, and the limits on requests."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from regente import Regente
from regente.api.errors import BodyTooLarge, JsonTooDeep
from regente.api.limits import check_nesting
from regente.api.problems import problem_of
from regente.engine.errors import DatabaseUnavailable, InvalidInput, PayloadTooLarge, SchemaOutdated
from tests.api.conftest import DAY, Served, body_of, with_config


async def test_an_error_is_a_problem_with_a_code_and_the_id_that_is_in_the_log(
    api: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """S7, O18: one format for every error."""
    with caplog.at_level(logging.INFO):
        answer = await api.viewer.get("/api/missions/7", headers={"x-request-id": "abc-1"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert body_of(answer, 404) == {
        "type": "urn:regente:problem:not_found",
        "title": "Not Found",
        "status": 404,
        "code": "NOT_FOUND",
        "detail": "there is no mission 7",
        "instance": "/api/missions/7",
        "request_id": "abc-1",
    }
    assert answer.headers["x-request-id"] == "abc-1"
    assert any(
        vars(record).get("request_id") == "abc-1" and vars(record).get("code") == "NOT_FOUND"
        for record in caplog.records
    )


async def test_an_unsafe_request_id_is_replaced(api: Served) -> None:
    """S7: a request id cannot forge log lines."""
    for given in ("x" * 65, "a b", "ä"):
        answer = await api.viewer.get("/api/missions", headers=[(b"x-request-id", given.encode())])
        assert answer.headers["x-request-id"] != given
        assert len(answer.headers["x-request-id"]) == 16


async def test_invalid_fields_are_named_without_their_values(api: Served) -> None:
    """O18."""
    body = {
        "name": "w",
        "url": "https://w.example.com",
        "api_key": {"canary-in-a-field": 1},
        "storage_domain": "s.example.com",
    }
    problem = body_of(await api.admin.post("/api/workers", json=body), 422)
    assert problem["code"] == "VALIDATION"
    assert [error["field"] for error in problem["errors"]] == ["body.api_key"]
    assert "canary" not in json.dumps(problem)
    mission = {**DAY, "media_type": "song", "surprise": 1}
    fields = {
        error["field"]
        for error in (
            await api.operator.post("/api/missions", json={"missions": [mission]})
        ).json()["errors"]
    }
    assert fields == {"body.missions.0.media_type", "body.missions.0.surprise"}
    unknown = body_of(await api.viewer.get("/api/missions?colour=red"), 422)
    assert unknown["errors"][0]["field"] == "query.colour"


@with_config(max_body_bytes=1000, max_json_depth=5)
async def test_bodies_that_are_too_large_too_deep_or_no_json_are_refused(api: Served) -> None:
    """O18: limits on size and depth, also without Content-Length."""
    headers = {"content-type": "application/json"}

    async def drip() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    large = await api.operator.post("/api/missions", content=b" " * 2000, headers=headers)
    assert (large.status_code, large.json()["code"]) == (413, "BODY_TOO_LARGE")
    chunked = await api.operator.post("/api/missions", content=drip(), headers=headers)
    assert (chunked.status_code, chunked.json()["code"]) == (413, "BODY_TOO_LARGE")
    deep = await api.operator.post("/api/missions", content=b"[" * 6 + b"]" * 6, headers=headers)
    assert (deep.status_code, deep.json()["code"]) == (400, "JSON_TOO_DEEP")
    broken = await api.operator.post("/api/missions", content=b'{"missions": ', headers=headers)
    assert (broken.status_code, broken.json()["code"]) == (400, "INVALID_JSON")


def test_brackets_in_texts_are_not_depth() -> None:
    """O18: brackets inside JSON strings do not count."""
    check_nesting(json.dumps(["[" * 100, '"[[[[\\"', "\\"]).encode(), 2)
    for deep, limit in ((json.dumps([[[1]]]).encode(), 2), (b"[" * 10_000, 50)):
        with pytest.raises(JsonTooDeep):
            check_nesting(deep, limit)
    check_nesting(b"[" + b"{}," * 200_000 + b"1]", 2)
    with pytest.raises(BodyTooLarge):
        check_nesting(b"[" + b"{}," * 300_000 + b"1]", 2)


async def test_hostile_input_is_refused_and_never_an_internal_error(api: Served) -> None:
    """O18: NUL, lone surrogates, endless numbers."""
    for text in ("nul\u0000", "\ud800"):
        body = json.dumps({"round": text, "pipeline": "missions"}).encode()
        answer = await api.operator.post(
            "/api/scrape", content=body, headers={"content-type": "application/json"}
        )
        assert 400 <= answer.status_code < 500, answer.text
        answer = await api.viewer.get(
            "/api/events", params={"types": text.encode("utf-8", "surrogatepass")}
        )
        assert answer.status_code < 500, answer.text
    for path in (
        "/api/missions/0",
        f"/api/tasks/{2**63}",
        "/api/tasks/-1",
        "/api/missions?limit=501",
        "/api/missions?cursor=x",
    ):
        assert (await api.viewer.get(path)).status_code == 422, path
    assert (await api.viewer.get(f"/api/missions?cursor={'9' * 19}")).status_code == 200
    assert (await api.viewer.get(f"/api/events?cursor={'9' * 19}-{'9' * 19}")).status_code in (
        200,
        422,
    )


async def test_an_unknown_method_is_a_problem_too(api: Served) -> None:
    """O18: also errors of the framework."""
    answer = await api.admin.put("/api/missions", json={})
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("wrong", [{"ids": [True]}, {"ids": True}, {"ids": [1, False]}])
async def test_a_boolean_is_no_number(api: Served, wrong: dict[str, Any]) -> None:
    """O18: `true` would be the mission 1."""
    refused = body_of(await api.operator.post("/api/missions/cancel", json=wrong), 422)
    assert refused["code"] == "VALIDATION"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidInput("x"), 422, "INVALID_INPUT"),
        (PayloadTooLarge("x"), 413, "PAYLOAD_TOO_LARGE"),
        (DatabaseUnavailable("x"), 503, "DATABASE_UNAVAILABLE"),
        (SchemaOutdated("x"), 503, "SCHEMA_OUTDATED"),
        (ValueError("a secret"), 500, "INTERNAL"),
    ],
)
def test_each_error_has_its_status(error: Exception, status: int, code: str) -> None:
    """O18: the one mapping from errors to HTTP."""
    problem, headers = problem_of(error)
    assert (problem.status, problem.code) == (status, code)
    assert "secret" not in problem.detail
    assert ("retry-after" in headers) == (status == 503)


async def test_a_lost_database_is_503_and_not_500(
    app: Regente, api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O18."""
    monkeypatch.setattr("regente.engine.database.RETRY_SECONDS", 0.2)
    await app.database.close()
    answer = await api.viewer.get("/api/missions")
    assert answer.status_code == 503
    assert answer.json()["code"] == "DATABASE_UNAVAILABLE"
    await app.database.open()
