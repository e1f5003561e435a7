"""Checks of a Writer's job: accepted, followed to its end, counted row by row, sent twice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from regente.conformance.checks import NotAsked, Unmet, Unproven
from regente.conformance.exchange import Reply
from regente.conformance.source import BAD_INDEX
from regente.conformance.watching import Watch
from regente.conformance.writer_bench import WriterBench, job_id_of
from regente.contracts.writer import WriterStatus

_COUNTS = ("total", "processed", "success_count", "failed_count")


async def is_accepted(bench: WriterBench) -> str:
    reply = await bench.process(bench.keyed_payload())
    job_id = job_id_of(reply)
    bench.accepted, bench.job_id = reply, job_id
    if job_id != bench.wanted_id:
        raise Unmet(f"{reply}; expected the `job_id` that was sent")
    return str(reply)


async def names_its_status(bench: WriterBench) -> str:
    if bench.accepted is None:
        raise Unproven("no job was accepted")
    status = bench.accepted.document().get("status")
    if status not in [value.value for value in WriterStatus]:
        raise Unmet(f"{bench.accepted}; expected a `status`: {', '.join(WriterStatus)}")
    return f"POST /process → status {status}"


async def names_its_own_job(bench: WriterBench) -> str:
    """The request of 3.1.2, without a `job_id`. Waits for the end, so that what follows has the
    writer to itself."""
    reply = await bench.process(bench.options.payload(bench.source_url))
    job_id = job_id_of(reply)
    await bench.watch_job(job_id)
    if job_id == bench.job_id:
        raise Unmet(f"{reply}; expected a new job, this is the one before")
    return str(reply)


async def says_known_values(bench: WriterBench) -> str:
    if bench.job_id is None:
        raise Unproven("no job was accepted")
    bench.job = await bench.watch_job(bench.job_id)
    bench.job.expect_known_values()
    return str(bench.job)


async def ends(bench: WriterBench) -> str:
    """`partial` for the document that has a bad row; else as the counts say."""
    if bench.job is None:
        raise Unproven("no job was accepted")
    job = bench.job
    wanted = "partial" if bench.local else "completed or partial"
    if job.final is None or job.final not in wanted.split(" or "):
        raise Unmet(
            f"{job}{_why(job)}; expected {wanted} within {bench.options.timeout_seconds:g} s"
        )
    return f"{job} after {job.seconds:.1f} s"


def _why(job: Watch) -> str:
    error = job.last.get("error")
    return f" (error: {error})" if error else ""


async def has_every_field(bench: WriterBench) -> str:
    job = bench.ended_job()
    missing = [
        name
        for name in ("job_id", "progress", "failed_items", "started_at", "completed_at")
        if name not in job.last
    ]
    if missing:
        raise Unmet(f"{job.sent} → {_brief(job)} without {', '.join(missing)}")
    if job.last["job_id"] != bench.job_id:
        raise Unmet(
            f"{job.sent} → job_id {job.last['job_id']!r}; expected the one that was asked for"
        )
    for name in ("started_at", "completed_at"):
        if not _is_time(job.last[name]):
            raise Unmet(f"{job.sent} → {name} {job.last[name]!r}; expected a time of ISO 8601")
    return f"{job.sent} → {', '.join(job.last)}"


async def counts_add_up(bench: WriterBench) -> str:
    job = bench.ended_job()
    last: Any = job.last.get("progress")
    for progress in (*job.progress, last):
        wrong = _wrong_counts(progress)
        if wrong:
            raise Unmet(f"{job.sent} → progress {progress}; {wrong}")
    if job.final == WriterStatus.FAILED:
        raise Unproven("the job failed: its counts say nothing")
    wrong = _wrong_end(last, None if bench.local is None else len(bench.local.rows))
    if wrong:
        raise Unmet(f"{job.sent} → {job.final}, progress {last}; {wrong}")
    if (last["failed_count"] > 0) != (job.final == WriterStatus.PARTIAL):
        raise Unmet(
            f"{job.sent} → {job.final}, progress {last}; `partial` is for rows that "
            "failed, `completed` for none"
        )
    return f"{job.sent} → progress {last}"


def _wrong_counts(progress: Any) -> str | None:
    if not isinstance(progress, dict):
        return "expected an object"
    for name in _COUNTS:
        value = progress.get(name)
        # The total of a document that is still being read may not be known yet.
        if not (_is_count(value) or (name == "total" and value is None)):
            return f"expected a whole number as {name}"
    if progress["total"] is not None and progress["processed"] > progress["total"]:
        return "more processed than there are"
    return None


def _wrong_end(progress: dict[str, Any], rows: int | None) -> str | None:
    if progress["success_count"] + progress["failed_count"] != progress["processed"]:
        return "expected success_count + failed_count = processed"
    if progress["processed"] != progress["total"]:
        return "expected processed = total at the end"
    if rows is not None and progress["total"] != rows:
        return f"the document has {rows} rows"
    return None


async def names_failed_rows(bench: WriterBench) -> str:
    job = bench.ended_job()
    items = job.last.get("failed_items")
    shown = f"{job.sent} → failed_items {items!r}"
    if not isinstance(items, list):
        raise Unmet(f"{shown}; expected an array")
    if not items and bench.local is None:
        raise NotAsked(
            "no row of the source failed: without --source-url a document with a bad row is used"
        )
    for item in items:
        if not (
            isinstance(item, dict)
            and _is_count(item.get("index"))
            and "data" in item
            and _is_text(item.get("error"))
        ):
            raise Unmet(f"{shown}; expected index, data and error of each")
    if bench.local and [(item["index"], item["data"]) for item in items] != [
        (BAD_INDEX, bench.local.rows[BAD_INDEX])
    ]:
        raise Unmet(
            f"{shown}; expected the one bad row, index {BAD_INDEX}, data "
            f"{bench.local.rows[BAD_INDEX]}"
        )
    return shown


async def sends_source_headers(bench: WriterBench) -> str:
    if bench.local is None:
        raise NotAsked("only a source of our own shows it: leave --source-url out")
    bench.ended_job()
    if not bench.local.heads:
        raise Unproven("the writer never asked for the source")
    if not any(head.get("authorization") == f"Bearer {bench.token}" for head in bench.local.heads):
        raise Unmet("source.headers had an Authorization; the source was asked without it")
    return "source.headers had an Authorization; it came with the request for the source"


async def is_one_job(bench: WriterBench) -> str:
    before = bench.ended_job()
    asked = len(bench.local.heads) if bench.local else 0
    reply = await bench.process(bench.keyed_payload())
    if job_id_of(reply) != bench.job_id:
        raise Unmet(f"the same job_id a second time: {reply}; expected the same job")
    after = await bench.watch_job(job_id_of(reply))
    if (after.final, after.last.get("progress")) != (before.final, before.last.get("progress")):
        raise Unmet(f"the same job_id a second time: {_brief(after)}; it was {_brief(before)}")
    again = len(bench.local.heads) - asked if bench.local else 0
    if again:
        raise Unmet(f"the same job_id a second time: the source was read again; {reply}")
    return f"the same job_id a second time: {_answer(reply)}; {_brief(after)} as before"


def _answer(reply: Reply) -> str:
    return f"{reply.status} job_id {reply.document().get('job_id')}"


def _brief(job: Watch) -> str:
    return f"{job.last.get('status')}, progress {job.last.get('progress')}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True
