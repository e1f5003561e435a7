"""The HTTP side of 9.2 and 9.3: keys, codes, and one job for one job_id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.services.writer.client import KEY, WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, ads

URL = "https://storage.example.com/data.json"


def body(**changes: Any) -> dict[str, Any]:
    return {"config": {"table": "ads"}, "source": {"url": URL}} | changes


async def test_only_the_health_check_needs_no_key(writer: WriterClient) -> None:
    """O22: 401 everywhere else, before the request is inspected."""
    assert (await writer.http.get("/health", headers={"x-api-key": ""})).json() == {
        "status": "healthy"
    }
    for key in ("", "wrong", KEY + "x", "é"):
        for method, path in (
            ("POST", "/process"),
            ("GET", "/status/x"),
            ("GET", "/openapi.json"),
            ("GET", "/nowhere"),
        ):
            answer = await writer.http.request(
                method, path, headers={b"x-api-key": key.encode()}, content=b"{"
            )
            assert answer.status_code == 401, (key, path)


async def test_the_answer_to_process_is_the_contract(
    writer: WriterClient, source: SourceServer
) -> None:
    answer = await writer.post(source.serve({"ads": []}))
    assert set(answer.json()) == {"job_id", "status", "created_at"}
    assert answer.json()["status"] == "processing"
    assert len(answer.json()["job_id"]) == 36


async def test_no_json_is_a_bad_request(writer: WriterClient) -> None:
    assert (
        await writer.http.post(
            "/process", content=b"{no json", headers={"content-type": "application/json"}
        )
    ).status_code == 400


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"source": {"url": URL}}, "config"),
        ({"config": {"table": "ads"}}, "source"),
        (body(config={"table": ""}), "table"),
        (body(config={"table": "users"}), "table"),
        (body(config={"table": "ads", "schema": "pg_catalog"}), "table"),
        (body(config={"table": 'ads"; DROP TABLE public.ads; --'}), "table"),
        (body(config={"table": "ads", "operation": "delete"}), "operation"),
        (body(source={"url": "file:///etc/passwd"}), "url"),
        (body(source={"url": "ftp://example.com/x"}), "url"),
        (body(source={"url": "http://"}), "url"),
        (body(source={"url": "http://example.com:99999/"}), "url"),
        (body(source={"url": "http://169.254.169.254/latest/meta-data"}), "url"),
        (body(job_id="x" * 101), "job_id"),
        (body(job_id="nul \0"), "body"),
    ],
)
async def test_a_field_that_is_wrong_is_named(
    writer: WriterClient, sent: dict[str, Any], field: str
) -> None:
    """9.3: 422 with the place of the wrong field."""
    answer = await writer.http.post("/process", json=sent)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"][-1] == field
    assert answer.json()["detail"][0]["msg"]


async def test_a_mistake_is_answered_without_quoting_secrets(writer: WriterClient) -> None:
    sent = body(source={"url": URL, "headers": {"authorization": ["canary-secret"]}})
    answer = await writer.http.post("/process", json=sent)
    assert answer.status_code == 422
    assert "canary-secret" not in answer.text


async def test_an_unknown_job_is_not_found(writer: WriterClient) -> None:
    for job_id in ("unknown", "%00"):
        assert (await writer.http.get(f"/status/{job_id}")).status_code == 404


async def test_a_large_body_is_refused_with_and_without_a_length(open_writer: OpenWriter) -> None:
    writer = await open_writer(body_bytes=1000)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    assert (await writer.http.post("/process", content=b"x" * 2000)).status_code == 413
    assert (await writer.http.post("/process", content=pieces())).status_code == 413


async def test_too_many_requests_are_told_when_to_come_back(
    open_writer: OpenWriter, source: SourceServer
) -> None:
    writer = await open_writer(request_burst=3, requests_per_second=0.01)
    url = source.serve({"ads": []})
    answers = [await writer.post(url) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 90 <= int(answers[-1].headers["retry-after"]) <= 100


async def test_too_many_unfinished_jobs_are_told_to_wait(open_writer: OpenWriter, sql: Sql) -> None:
    writer = await open_writer(waiting_jobs=1, backoff_seconds=30)
    assert (await writer.post("http://127.0.0.1:1/")).status_code == 200
    answer = await writer.post("http://127.0.0.1:1/")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")


async def test_a_lost_database_is_an_internal_error(writer: WriterClient, sql: Sql) -> None:
    """9.3: 500 without any detail of the error."""
    sql.execute("DROP SCHEMA regente_writer CASCADE")
    answer = await writer.http.get("/status/x")
    assert (answer.status_code, answer.json()) == (500, {"detail": "internal error"})


async def test_the_same_job_id_twice_is_one_job(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: the job_id is the idempotency key, before and after the job's end."""
    url = source.serve({"ads": ads(10)})
    first = await writer.post(url, job_id="mission-7-1")
    again = await writer.post(url, job_id="mission-7-1", headers={"authorization": "a fresh token"})
    assert first.json()["job_id"] == again.json()["job_id"] == "mission-7-1"
    assert first.json()["created_at"] == again.json()["created_at"]
    await writer.ended("mission-7-1")
    after = await writer.post(url, job_id="mission-7-1")
    assert (after.status_code, after.json()["status"]) == (200, "completed")
    assert len(source.visits) == 1
    assert sql.execute("SELECT count(*) FROM regente_writer.jobs").fetchone() == {"count": 1}


async def test_a_job_id_of_another_request_is_refused(
    writer: WriterClient, source: SourceServer
) -> None:
    await writer.process(source.serve({"ads": []}), job_id="one")
    answer = await writer.post(source.serve({"ads": []}, "/other.json"), job_id="one")
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "job_id"]
    assert "another request" in answer.json()["detail"][0]["msg"]


async def test_private_addresses_are_refused_unless_they_are_allowed(
    open_writer: OpenWriter,
) -> None:
    writer = await open_writer(allow_private=False)
    for host in (
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
    ):
        answer = await writer.post(f"http://{host}/x")
        assert answer.status_code == 422, host


async def test_tables_must_be_allowed_one_by_one(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    sql.execute("CREATE TABLE public.creatives (code int UNIQUE, title text)")
    writer = await open_writer(targets=frozenset({"public.creatives"}))
    url = source.serve({"ads": [{"code": 1, "title": "a"}, {"code": 2, "title": "b"}]})
    assert (await writer.post(url)).status_code == 422
    job = await writer.run(url, config={"table": "creatives", "conflict_key": "code"})
    assert job["status"] == "completed"
    for key, said in (("title", "no unique constraint"), ("nothing", "no column 'nothing'")):
        job = await writer.run(url, config={"table": "creatives", "conflict_key": key})
        assert (job["status"], job["error_code"]) == ("failed", "ERROR303")
        assert said in job["error"]


async def test_two_writers_can_start_on_an_empty_database_at_once(open_writer: OpenWriter) -> None:
    writers = await asyncio.gather(*(open_writer() for _ in range(4)))
    assert {(await writer.http.get("/health")).status_code for writer in writers} == {200}
