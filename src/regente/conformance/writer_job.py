"""Checks of a Writer's job: accepted, polled to its end, counted row by row, sent twice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from regente.conformance.checks import CheckFailed, CheckInconclusive, CheckSkipped
from regente.conformance.http import Reply
from regente.conformance.polling import StatusHistory
from regente.conformance.source import BAD_INDEX
from regente.conformance.writer_context import WriterContext, job_id_of
from regente.contracts.writer import WriterStatus

_COUNTS = ("total", "processed", "success_count", "failed_count")


async def is_accepted(context: WriterContext) -> str:
    reply = await context.process(context.keyed_payload())
    job_id = job_id_of(reply)
    context.accepted, context.job_id = reply, job_id
    if job_id != context.wanted_id:
        raise CheckFailed(f"{reply}; expected the `job_id` that was sent")
    return str(reply)


async def names_its_status(context: WriterContext) -> str:
    if context.accepted is None:
        raise CheckInconclusive("no job was accepted")
    status = context.accepted.document().get("status")
    if status not in [value.value for value in WriterStatus]:
        raise CheckFailed(f"{context.accepted}; expected a `status`: {', '.join(WriterStatus)}")
    return f"POST /process → status {status}"


async def names_its_own_job(context: WriterContext) -> str:
    """Send the request of 3.1.2, without `job_id`; wait for its end before the next check."""
    reply = await context.process(context.options.payload(context.source_url))
    job_id = job_id_of(reply)
    await context.poll_job(job_id)
    if job_id == context.job_id:
        raise CheckFailed(f"{reply}; expected a new job, this is the previous one")
    return str(reply)


async def says_known_values(context: WriterContext) -> str:
    if context.job_id is None:
        raise CheckInconclusive("no job was accepted")
    context.job = await context.poll_job(context.job_id)
    context.job.expect_known_values()
    return str(context.job)


async def ends(context: WriterContext) -> str:
    """Expect `partial` for a document with a bad row, else the status that the counts imply."""
    if context.job is None:
        raise CheckInconclusive("no job was accepted")
    job = context.job
    wanted = "partial" if context.local else "completed or partial"
    if job.final is None or job.final not in wanted.split(" or "):
        raise CheckFailed(
            f"{job}{_why(job)}; expected {wanted} within {context.options.timeout_seconds:g} s"
        )
    return f"{job} after {job.seconds:.1f} s"


def _why(job: StatusHistory) -> str:
    error = job.last.get("error")
    return f" (error: {error})" if error else ""


async def has_every_field(context: WriterContext) -> str:
    job = context.ended_job()
    missing = [
        name
        for name in ("job_id", "progress", "failed_items", "started_at", "completed_at")
        if name not in job.last
    ]
    if missing:
        raise CheckFailed(f"{job.sent} → {_brief(job)} without {', '.join(missing)}")
    if job.last["job_id"] != context.job_id:
        raise CheckFailed(f"{job.sent} → job_id {job.last['job_id']!r}; expected the requested one")
    for name in ("started_at", "completed_at"):
        if not _is_time(job.last[name]):
            raise CheckFailed(f"{job.sent} → {name} {job.last[name]!r}; expected an ISO 8601 time")
    return f"{job.sent} → {', '.join(job.last)}"


async def counts_add_up(context: WriterContext) -> str:
    job = context.ended_job()
    last: Any = job.last.get("progress")
    for progress in (*job.progress, last):
        mistake = _wrong_counts(progress)
        if mistake:
            raise CheckFailed(f"{job.sent} → progress {progress}; {mistake}")
    if job.final == WriterStatus.FAILED:
        raise CheckInconclusive("the job failed: its counts have no meaning")
    mistake = _wrong_end(last, None if context.local is None else len(context.local.rows))
    if mistake:
        raise CheckFailed(f"{job.sent} → {job.final}, progress {last}; {mistake}")
    if (last["failed_count"] > 0) != (job.final == WriterStatus.PARTIAL):
        raise CheckFailed(
            f"{job.sent} → {job.final}, progress {last}; `partial` means failed rows, "
            "`completed` none"
        )
    return f"{job.sent} → progress {last}"


def _wrong_counts(progress: Any) -> str | None:
    if not isinstance(progress, dict):
        return "expected an object"
    for name in _COUNTS:
        value = progress.get(name)
        # The total may be unknown while the document is being read.
        if not (_is_count(value) or (name == "total" and value is None)):
            return f"expected a whole number as {name}"
    if progress["total"] is not None and progress["processed"] > progress["total"]:
        return "more processed than total"
    return None


def _wrong_end(progress: dict[str, Any], rows: int | None) -> str | None:
    if progress["success_count"] + progress["failed_count"] != progress["processed"]:
        return "expected success_count + failed_count = processed"
    if progress["processed"] != progress["total"]:
        return "expected processed = total at the end"
    if rows is not None and progress["total"] != rows:
        return f"the document has {rows} rows"
    return None


async def names_failed_rows(context: WriterContext) -> str:
    job = context.ended_job()
    items = job.last.get("failed_items")
    shown = f"{job.sent} → failed_items {items!r}"
    if not isinstance(items, list):
        raise CheckFailed(f"{shown}; expected an array")
    if not items and context.local is None:
        raise CheckSkipped(
            "no row of the source failed: without --source-url a document with a bad row is used"
        )
    for item in items:
        if not (
            isinstance(item, dict)
            and _is_count(item.get("index"))
            and "data" in item
            and _is_text(item.get("error"))
        ):
            raise CheckFailed(f"{shown}; expected index, data and error of each")
    if context.local and [(item["index"], item["data"]) for item in items] != [
        (BAD_INDEX, context.local.rows[BAD_INDEX])
    ]:
        raise CheckFailed(
            f"{shown}; expected the one bad row, index {BAD_INDEX}, data "
            f"{context.local.rows[BAD_INDEX]}"
        )
    return shown


async def sends_source_headers(context: WriterContext) -> str:
    if context.local is None:
        raise CheckSkipped("only the built-in source shows it: omit --source-url")
    context.ended_job()
    if not context.local.request_headers:
        raise CheckInconclusive("the writer never requested the source")
    if not any(
        head.get("authorization") == f"Bearer {context.token}"
        for head in context.local.request_headers
    ):
        raise CheckFailed(
            "source.headers had an Authorization; the request for the source had none"
        )
    return "source.headers had an Authorization; the request for the source had it"


async def is_one_job(context: WriterContext) -> str:
    before = context.ended_job()
    asked = len(context.local.request_headers) if context.local else 0
    reply = await context.process(context.keyed_payload())
    if job_id_of(reply) != context.job_id:
        raise CheckFailed(f"the same job_id a second time: {reply}; expected the same job")
    after = await context.poll_job(job_id_of(reply))
    if (after.final, after.last.get("progress")) != (before.final, before.last.get("progress")):
        raise CheckFailed(
            f"the same job_id a second time: {_brief(after)}; it was {_brief(before)}"
        )
    again = len(context.local.request_headers) - asked if context.local else 0
    if again:
        raise CheckFailed(f"the same job_id a second time: the source was read again; {reply}")
    return f"the same job_id a second time: {_answer(reply)}; {_brief(after)} as before"


def _answer(reply: Reply) -> str:
    return f"{reply.status} job_id {reply.document().get('job_id')}"


def _brief(job: StatusHistory) -> str:
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
