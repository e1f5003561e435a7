"""Kills, pauses, stops, two writers, a changed table: no row is lost and none is stored twice."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import OpenWriter, Sql
from tests.services.writer.source_server import SourceServer, Visit, ad, ads
from tests.services.writer.writer_process import WriterProcess
from tests.support.eventually import eventually_async

# Records every arrival without any key, in the same transaction: a double commit shows as two rows.
_NOTE_ARRIVALS = """
CREATE TABLE public.arrivals (id text);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.arrivals VALUES (NEW.id); RETURN NEW; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON public.ads FOR EACH ROW EXECUTE FUNCTION public.note()
"""


class Valve:
    """Serves a document in two halves; the test releases the second one."""

    def __init__(self, count: int) -> None:
        self.body = json.dumps(
            {"ads": [ad(number, text="x" * 400) for number in range(count)]}
        ).encode()
        self.open = asyncio.Event()

    async def __call__(self, visit: Visit) -> None:
        half = len(self.body) // 2
        await visit.head(content_length=len(self.body), etag='"v1"')
        await visit.send(self.body[:half])
        await self.open.wait()
        await visit.send(self.body[half:])


def arrivals(sql: Sql) -> tuple[int, int]:
    found = sql.execute(
        "SELECT count(*), count(DISTINCT id) AS different FROM public.arrivals"
    ).fetchone()
    assert found is not None
    return found["count"], found["different"]


async def some_progress(writer: WriterClient, job_id: str) -> None:
    async def begun() -> bool:
        return bool((await writer.status(job_id))["progress"]["processed"])

    await eventually_async(begun)


def clients(*processes: WriterProcess) -> list[WriterClient]:
    return [WriterClient(process.url) for process in processes]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
async def test_a_writer_that_ends_in_the_middle_is_continued_by_the_next(
    database_url: str, source: SourceServer, sql: Sql, sign: signal.Signals
) -> None:
    """O22, F1: kill -9, and an orderly stop, which hands the job over before its lease expires."""
    valve, count = Valve(10_000), 10_000
    lease = "1" if sign is signal.SIGKILL else "600"
    with WriterProcess(database_url, "--lease-seconds", lease) as first:
        sql.execute(_NOTE_ARRIVALS)
        [writer] = clients(first)
        async with writer.http:
            job_id = await writer.process(source.on("/x", valve), job_id="one")
            await some_progress(writer, job_id)
        first.send(sign)
        await asyncio.to_thread(first.wait)
    stored = arrivals(sql)
    assert stored[0] == stored[1]
    assert 0 < stored[0] < count
    valve.open.set()
    with WriterProcess(database_url, "--lease-seconds", "1") as second:
        [writer] = clients(second)
        async with writer.http:
            job = await writer.ended(job_id)
    assert (job["status"], job["progress"]["success_count"], job["progress"]["total"]) == (
        "completed",
        count,
        count,
    )
    assert arrivals(sql) == (count, count)


async def test_two_writers_never_work_on_one_job(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    writers = [await open_writer(batch_bytes=20_000) for _ in range(3)]
    sql.execute(_NOTE_ARRIVALS)
    jobs = [
        await writers[0].process(source.serve({"ads": ads(500)}, f"/{number}"), job_id=str(number))
        for number in range(6)
    ]
    for job_id in jobs:
        assert (await writers[1].ended(job_id))["progress"]["success_count"] == 500
    assert arrivals(sql)[0] == 6 * 500
    assert sorted(visit.path for visit in source.visits) == [f"/{number}" for number in range(6)]


async def test_a_writer_paused_past_its_lease_stores_nothing(
    database_url: str, source: SourceServer, sql: Sql
) -> None:
    """F5: paused past its lease, then woken; the writer that took over keeps the job."""
    valve = Valve(10_000)
    with WriterProcess(database_url, "--lease-seconds", "1") as paused:
        sql.execute(_NOTE_ARRIVALS)
        [writer] = clients(paused)
        async with writer.http:
            job_id = await writer.process(source.on("/x", valve))
            await some_progress(writer, job_id)
        paused.send(signal.SIGSTOP)
        with WriterProcess(database_url, "--lease-seconds", "1") as successor:
            [writer] = clients(successor)
            await eventually_async(lambda: _visited(source, 2))
            valve.open.set()
            async with writer.http:
                job = await writer.ended(job_id)
            paused.send(signal.SIGCONT)
            async with WriterClient(paused.url).http as awake:
                assert (await awake.get("/health")).status_code == 200
            paused.send(signal.SIGTERM)
            await asyncio.to_thread(paused.wait)
    assert (job["status"], job["progress"]["success_count"]) == ("completed", 10_000)
    assert arrivals(sql) == (10_000, 10_000)


async def _visited(source: SourceServer, times: int) -> bool:
    return len(source.visits) >= times


async def test_a_batch_under_a_lost_lease_is_not_stored(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    """The fence: rows commit only together with progress that this writer may still make."""
    valve = Valve(8_000)
    writer = await open_writer(lease_seconds=600)
    job_id = await writer.process(source.on("/x", valve))
    await some_progress(writer, job_id)
    sql.execute(
        "UPDATE regente_writer.jobs SET lease_owner = 'another', lease_until = now() + "
        "interval '1 hour'"
    )
    before = sql.execute("SELECT count(*) FROM public.ads").fetchone()
    valve.open.set()
    await eventually_async(lambda: _left_alone(sql))
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == before


async def _left_alone(sql: Sql) -> bool:
    """No connection of the writer is in a transaction, and it has released the job's connection."""
    found = sql.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
        "application_name = 'regente writer' "
        "AND query ~ 'note_progress|ROLLBACK|regente_writer.jobs' AND state = 'idle'"
    ).fetchone()
    return found is not None and found["count"] > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE public.ads DROP COLUMN text", "text"),
        ("DROP TABLE public.ads", "ads"),
        ("ALTER TABLE public.ads DROP CONSTRAINT ads_pkey", "ON CONFLICT"),
    ],
)
async def test_a_table_that_changes_in_the_middle_fails_the_job(
    writer: WriterClient, source: SourceServer, sql: Sql, change: str, said: str
) -> None:
    """F16: ERROR303, and the rows until then stay; no failed item per row."""
    valve = Valve(8_000)
    job_id = await writer.process(source.on("/x", valve))
    await some_progress(writer, job_id)
    sql.execute(change)
    valve.open.set()
    job = await writer.ended(job_id)
    assert (job["status"], job["error_code"], job["failed_items"]) == ("failed", "ERROR303", [])
    assert said in job["error"]
    assert 0 < job["progress"]["success_count"] < 8_000


async def test_a_lost_connection_to_the_database_costs_nothing(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    """F3: every connection of the writer is cut in the middle of a job."""
    valve = Valve(8_000)
    writer = await open_writer()
    sql.execute(_NOTE_ARRIVALS)
    job_id = await writer.process(source.on("/x", valve))
    await some_progress(writer, job_id)
    sql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
        "'regente writer'"
    )
    valve.open.set()
    job = await writer.ended(job_id)
    assert (job["status"], job["progress"]["success_count"]) == ("completed", 8_000)
    assert arrivals(sql) == (8_000, 8_000)


async def test_a_job_without_progress_is_given_up(
    open_writer: OpenWriter, source: SourceServer, sql: Sql
) -> None:
    """I7: a job that kills its writer each time is claimed a bounded number of times."""
    writer = await open_writer(max_claims_without_rows=3)
    await writer.run(source.serve({"ads": []}), job_id="poison")
    sql.execute(
        "UPDATE regente_writer.jobs SET status = 'processing', completed_at = NULL, claims = 3"
    )
    job = await writer.ended("poison")
    assert job["status"] == "failed"
    assert "given up" in job["error"]
