"""What others must not get at: jobs of other writers, headers at rest, slots, the right key."""

from __future__ import annotations

import asyncio
import json

import pytest

from regente.asgi.server import serving
from regente.services.writer import WriterConfig, create_app
from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, Visit

SENT = {"Authorization": "Bearer the-token-of-the-source"}
OTHER_KEY = "the-key-of-another-writer"


async def test_headers_are_encrypted_while_the_job_waits(
    writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: a copy of the database holds no token; the source gets it."""
    asked, answered = asyncio.Event(), asyncio.Event()
    told: list[str] = []

    async def hold(visit: Visit) -> None:
        told.append(visit.headers["authorization"])
        asked.set()
        await answered.wait()
        body = json.dumps({"ads": [{"id": "1"}]}).encode()
        await visit.head(content_length=len(body))
        await visit.send(body)

    job_id = await writer.process(source.on("/held.json", hold), headers=SENT)
    async with asyncio.timeout(30):
        await asked.wait()
    (row,) = sql.execute("SELECT headers::text AS headers FROM regente_writer.jobs").fetchall()
    assert "encrypted" in row["headers"]
    assert "the-token" not in row["headers"]
    answered.set()
    assert (await writer.ended(job_id))["status"] == "completed"
    assert told == [SENT["Authorization"]]


async def test_writers_with_other_keys_do_not_share_jobs(
    database_url: str, writer: WriterClient, source: SourceServer, sql: Sql
) -> None:
    """O22: in the same database, neither claims, shows nor answers for the other's."""
    config = WriterConfig(
        database_url=database_url, api_key=OTHER_KEY, allow_private=True, create_ads=True
    )
    document = source.serve({"ads": [{"id": "1"}]})
    async with serving(create_app(config)) as url:
        other = WriterClient(url)
        async with other.http:
            other.http.headers["x-api-key"] = OTHER_KEY
            await writer.process(document, job_id="mine")
            assert (await other.http.get("/status/mine")).status_code == 404
            assert (await other.post(document, job_id="mine")).status_code == 422
            assert (await writer.ended("mine"))["status"] == "completed"
            sql.execute(
                "UPDATE regente_writer.jobs SET writer = 'a third one', status = 'processing', "
                "completed_at = NULL, lease_until = NULL, claims = 0 WHERE job_id = 'mine'"
            )
            assert (await other.run(document, job_id="theirs"))["status"] == "completed"
    assert (await writer.run(document, job_id="later"))["status"] == "completed"
    row = sql.execute("SELECT claims FROM regente_writer.jobs WHERE job_id = 'mine'").fetchone()
    assert row == {"claims": 0}


DRIPPING = {
    "a body": (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b" "),
    "headers": (b"HTTP/1.1 200 OK\r\nx-slow: ", b"a"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "the length of a chunk": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", b"a"),
}


@pytest.mark.parametrize("name", DRIPPING)
async def test_a_source_that_drips_gives_its_slot_back(
    open_writer: OpenWriter, source: SourceServer, name: str
) -> None:
    """F8, O22: each byte comes in time, and the whole never would."""
    beginning, drop = DRIPPING[name]

    async def drip(visit: Visit) -> None:
        await visit.send(beginning)
        while True:
            await visit.send(drop)
            await asyncio.sleep(0.02)

    writer = await open_writer(concurrent_jobs=1, read_seconds=1.0, connect_seconds=1.0)
    slow = await writer.process(source.on("/slow.json", drip))
    whole = await writer.process(source.serve({"ads": [{"id": "1"}]}))
    ended = await writer.ended(slow, within_seconds=60)
    assert (ended["status"], ended["error_code"]) == ("failed", "ERROR302")
    assert (await writer.ended(whole))["status"] == "completed"


async def test_a_source_has_a_deadline_over_all_its_reads(
    open_writer: OpenWriter, source: SourceServer
) -> None:
    """F8, O22: one that breaks off after each further row would be read for ever."""

    async def one_more_row(visit: Visit) -> None:
        await visit.head(content_length=1_000_000_000)
        for number in range(visit.number):
            await visit.send(b'{"ads":[' if number == 0 else b",")
            await visit.send(json.dumps({"id": f"ad-{number}", "text": "x" * 9000}).encode())
        while (await writer.status("grows"))["progress"]["processed"] < visit.number - 1:
            await asyncio.sleep(0.01)
        visit.reset()

    writer = await open_writer(concurrent_jobs=1, source_seconds=5.0, batch_bytes=1000)
    await writer.process(source.on("/more.json", one_more_row), job_id="grows")
    ended = await writer.ended("grows", within_seconds=60)
    assert (ended["status"], ended["error_code"]) == ("failed", "ERROR302")
    assert "5 s" in ended["error"]
    assert ended["progress"]["processed"] > 0


async def test_wrong_keys_do_not_lock_the_right_one_out(writer: WriterClient) -> None:
    """O22: guesses are slowed down, the client of the same address is not."""
    wrong = {"x-api-key": "a-guess"}
    answers = [await writer.http.get("/status/x", headers=wrong) for _ in range(300)]
    assert {one.status_code for one in answers} == {401, 429}
    assert "retry-after" in answers[-1].headers
    assert (await writer.http.get("/status/x")).status_code == 404


@pytest.mark.parametrize("key", ["", "short", "x" * 15])
def test_a_short_key_is_refused(database_url: str, key: str) -> None:
    """O22: it could be guessed."""
    with pytest.raises(ValueError, match="at least 16 characters"):
        WriterConfig(database_url=database_url, api_key=key)
