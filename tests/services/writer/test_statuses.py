"""The end of a job: completed, partial, failed, with its counts and its code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, Visit, ad, ads
from tests.support.eventually import eventually_async


def counts(job: dict[str, Any]) -> tuple[int | None, int, int, int]:
    progress = job["progress"]
    return (
        progress["total"],
        progress["processed"],
        progress["success_count"],
        progress["failed_count"],
    )


async def test_a_job_stores_every_row_and_says_so(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: `completed` with exact counts; the rows equal the source's."""
    job = await writer.run(source.serve({"job_id": "x", "ads": ads(300)}))
    assert job["status"] == "completed"
    assert counts(job) == (300, 300, 300, 0)
    assert job["started_at"]
    assert job["completed_at"]
    assert job["failed_items"] == []
    assert job["error"] is None
    stored = {row["id"]: row for row in sql.execute("SELECT * FROM public.ads")}
    assert len(stored) == 300
    for wanted in ads(300):
        assert stored[wanted["id"]]["text"] == wanted["text"]
        assert stored[wanted["id"]]["started_on"].isoformat() == wanted["started_on"]
        assert stored[wanted["id"]]["qtd_ads"] == wanted["qtd_ads"]


async def test_an_empty_array_is_a_completed_job(
    writer: WriterClient, source: SourceServer
) -> None:
    job = await writer.run(source.serve({"ads": []}))
    assert (job["status"], counts(job)) == ("completed", (0, 0, 0, 0))


async def test_rows_that_cannot_be_stored_are_found_by_their_index(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22, O10: `partial`, each bad row in failed_items; every good row is stored."""
    rows: list[Any] = ads(1000)
    rows[42] = ad(42, started_on="soonish")
    rows[43] = ad(43, qtd_ads="many")
    rows[500] = {"page_name": "no key"}
    rows[501] = ad(501, id=None)
    rows[777] = "not an object"
    rows[778] = [1]
    rows[900] = ad(900, text="nul \0 inside")
    rows[999] = ad(999, raw={"deep": "nul \0 inside"})
    job = await writer.run(source.serve({"ads": rows}))
    assert (job["status"], counts(job)) == ("partial", (1000, 1000, 992, 8))
    failed = {item["index"]: item for item in job["failed_items"]}
    assert list(failed) == [42, 43, 500, 501, 777, 778, 900, 999]
    assert all(failed[index]["data"] == rows[index] for index in failed)
    assert "soonish" in failed[42]["error"]
    assert "many" in failed[43]["error"]
    assert failed[500]["error"] == "the row has no 'id'"
    assert failed[501]["error"] == "'id' is null"
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": 992}


async def test_rows_with_invalid_json_fail_alone(
    writer: WriterClient, source: SourceServer
) -> None:
    """F15: a lone surrogate, 10,000 levels, a number out of range: one failed item each."""
    bad = [
        b'{"id":"a","text":"\\ud800"}',
        b'{"id":"b","raw":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"id":"c","qtd_ads":1e999}',
    ]
    body = b'{"ads":[{"id":"first"},' + b",".join(bad) + b',{"id":"last"}]}'
    job = await writer.run(source.serve(body))
    assert (job["status"], counts(job)) == ("partial", (5, 5, 2, 3))
    assert [item["index"] for item in job["failed_items"]] == [1, 2, 3]
    assert len(str(job["failed_items"][1]["data"])) < 1_000


async def test_when_no_row_can_be_stored_the_job_has_failed(
    writer: WriterClient, source: SourceServer
) -> None:
    job = await writer.run(source.serve({"ads": [ad(1, qtd_ads="x"), ad(2, qtd_ads="y")]}))
    assert (job["status"], job["error_code"], counts(job)) == ("failed", "ERROR303", (2, 2, 0, 2))
    assert "none of the 2 rows" in job["error"]


async def test_most_rows_bad_are_all_found(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    rows = [ad(number, qtd_ads=number if number % 10 == 0 else "x") for number in range(400)]
    job = await writer.run(source.serve({"ads": rows}))
    assert counts(job) == (400, 400, 40, 360)
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": 40}
    assert {item["index"] for item in job["failed_items"]} == {n for n in range(400) if n % 10}


@pytest.mark.parametrize(
    ("document", "path", "code", "said"),
    [
        (b"<html><body>Sign in</body></html>", "ads", "ERROR400", "HTML"),
        (b'{"ads":[{"id":"1"},{"id":"2"},{"id":', "ads", "ERROR400", "ends in the middle"),
        (b'{"ads":[{"id":"1"}]', "ads", "ERROR400", "ends in the middle"),
        (b'{"ads":[{"id":"1"},]}', "ads", "ERROR400", "comma without a value"),
        (b'{"ads":[{"id":"1"} {"id":"2"}]}', "ads", "ERROR400", "where a comma should be"),
        (b'{"ads":[{"id":"1"}]}}', "ads", "ERROR400", "after its end"),
        (b"", "ads", "ERROR400", "empty"),
        (b"garbage " * 1_250_000, "ads", "ERROR400", "not valid JSON"),
        (b'"' + b"x" * 20_000_000, "ads", "ERROR400", "longer than"),
        (b'{"other":[]}', "ads", "ERROR303", "has no 'ads'"),
        (b'{"ads":{"id":"1"}}', "ads", "ERROR303", "not an array"),
        (b'{"ads":null}', "ads", "ERROR303", "null"),
        (b"[]", "ads", "ERROR303", "not an object"),
        (b'{"a":1}', "a.b", "ERROR303", "'a' is a number"),
    ],
    ids=lambda value: value[:24].decode() if isinstance(value, bytes) else None,
)
async def test_a_document_that_is_not_what_it_should_be_fails_the_job(
    writer: WriterClient, source: SourceServer, document: bytes, path: str, code: str, said: str
) -> None:
    """O22, F8: HTML, cut off, garbage, another structure: `failed`, with the reason and its
    code."""
    job = await writer.run(source.serve(document), json_path=path)
    assert (job["status"], job["error_code"]) == ("failed", code)
    assert said in job["error"]


async def test_what_came_before_the_cut_stays_stored(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    writer = await open_writer(batch_bytes=4_000)
    whole = b'{"ads":[' + b",".join(
        b'{"id":"%d","text":"%s"}' % (n, b"x" * 100) for n in range(500)
    )
    job = await writer.run(source.serve(whole))
    assert job["status"] == "failed"
    assert job["progress"]["total"] is None
    assert job["progress"]["processed"] == job["progress"]["success_count"] == 499
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": 499}


@pytest.mark.parametrize(
    ("status", "code"), [(404, "ERROR400"), (401, "ERROR401"), (403, "ERROR401"), (503, "ERROR400")]
)
async def test_a_source_that_refuses_fails_the_job(
    writer: WriterClient, source: SourceServer, status: int, code: str
) -> None:
    async def refuse(visit: Visit) -> None:
        await visit.head(status, content_length=0)

    job = await writer.run(source.on("/x", refuse))
    assert (job["status"], job["error_code"]) == ("failed", code)
    assert f"HTTP {status}" in job["error"]
    assert len(source.visits) == (4 if status == 503 else 1)


async def test_a_source_without_a_server_is_a_connection_refused(writer: WriterClient) -> None:
    job = await writer.run("http://127.0.0.1:1/data.json")
    assert (job["status"], job["error_code"]) == ("failed", "ERROR301")


async def test_a_source_that_hangs_is_a_timeout(
    open_writer: OpenWriter, source: SourceServer
) -> None:
    async def hang(visit: Visit) -> None:
        await visit.head(content_length=1000)
        await asyncio.Event().wait()

    writer = await open_writer(read_seconds=0.1, source_tries=2)
    job = await writer.run(source.on("/x", hang))
    assert (job["status"], job["error_code"]) == ("failed", "ERROR302")


async def test_jobs_beyond_the_limit_wait(open_writer: OpenWriter, source: SourceServer) -> None:
    """A waiting job is `processing`, without `started_at`."""
    gate = asyncio.Event()

    async def held(visit: Visit) -> None:
        await gate.wait()
        await visit.head(content_length=10)
        await visit.send(b'{"ads":[]}')

    writer = await open_writer(concurrent_jobs=1)
    first = await writer.process(source.on("/held", held))
    await eventually_async(lambda: _asked(source))
    second = await writer.process(source.serve({"ads": ads(3)}))
    waiting = await writer.status(second)
    assert (waiting["status"], waiting["started_at"]) == ("processing", None)
    gate.set()
    assert [(await writer.ended(job))["status"] for job in (first, second)] == [
        "completed",
        "completed",
    ]


async def _asked(source: SourceServer) -> bool:
    return bool(source.visits)


async def test_failed_items_are_bounded_in_the_answer_and_whole_in_the_database(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    writer = await open_writer(shown_failed_items=5)
    rows = [ad(number, qtd_ads="x", text="long " * 2_000) for number in range(20)] + [ad(100)]
    job = await writer.run(source.serve({"ads": rows}))
    assert counts(job) == (21, 21, 1, 20)
    assert len(job["failed_items"]) == 5
    assert job["failed_items"][0]["data"]["id"] == "ad-0"
    assert len(job["failed_items"][0]["data"]["text"]) < 300
    kept = sql.execute(
        "SELECT count(*), min(length(data)) AS shortest FROM regente_writer.failed_items"
    ).fetchone()
    assert kept is not None
    assert kept["count"] == 20
    assert kept["shortest"] > 10_000
