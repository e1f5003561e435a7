"""Checks of a Writer's refusals: unknown jobs, bad payloads, missing tables and sources."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from regente.conformance.checks import CheckFailed
from regente.conformance.writer_context import WriterContext, job_id_of
from regente.contracts.writer import WriterStatus

UNKNOWN_TABLE = "regente_conformance_no_such_table"


async def is_healthy(context: WriterContext) -> str:
    reply = (await context.service.with_key(None, "without a key").get("/health")).expect(200)
    if reply.document().get("status") != "healthy":
        raise CheckFailed(f"{reply}; expected status healthy")
    return str(reply)


async def knows_no_job(context: WriterContext) -> str:
    return str((await context.status(secrets.token_hex(16))).expect(404))


async def refuses(context: WriterContext, *, payload: Any = None, text: str | None = None) -> str:
    service = context.service
    reply = await (
        service.post("/process", payload) if text is None else service.post_text("/process", text)
    )
    return str(reply.expect(400, 422))


async def refuses_oversize(context: WriterContext) -> str:
    payload = {
        **context.options.payload(context.source_url),
        "padding": "x" * context.options.oversize_bytes,
    }
    return str((await context.process(payload)).expect(413))


async def refuses_unknown_table(context: WriterContext) -> str:
    """Expect a refusal at once or a failed job: the contract allows both."""
    reply = await context.process(
        context.options.payload(context.source_url, table=UNKNOWN_TABLE, job_id=str(uuid.uuid4()))
    )
    if reply.status is not None and 400 <= reply.status < 500 and not reply.failure:
        return str(reply)
    return f"{reply}; {await _expect_failed(context, job_id_of(reply))}"


async def fails_without_source(context: WriterContext) -> str:
    reply = await context.process(
        context.options.payload(context.missing_url, job_id=str(uuid.uuid4()))
    )
    return f"a source that answers 404: {await _expect_failed(context, job_id_of(reply))}"


async def _expect_failed(context: WriterContext, job_id: str) -> str:
    job = await context.poll_job(job_id)
    if job.final != WriterStatus.FAILED:
        raise CheckFailed(f"{job}, progress {job.last.get('progress')}; expected failed")
    return str(job)
