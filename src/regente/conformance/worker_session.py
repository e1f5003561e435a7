"""Checks of a Worker's session: required, started, ready in time, ended, ended again."""

from __future__ import annotations

from regente.conformance.checks import CheckFailed, CheckInconclusive
from regente.conformance.polling import poll_status
from regente.conformance.worker_context import WorkerContext
from regente.contracts.worker import SessionStatus

_FINAL = frozenset(
    {SessionStatus.READY, SessionStatus.STUCK, SessionStatus.DISCONNECTED, SessionStatus.TERMINATED}
)


async def refuses_scrape_without_session(context: WorkerContext) -> str:
    await context.service.delete("/session")
    reply = await context.scrape()
    # 500 is a crash, not a refusal.
    if (
        reply.failure
        or reply.status is None
        or not (400 <= reply.status < 500 or reply.status == 503)
    ):
        await context.cancel_started(reply)
        raise CheckFailed(f"after DELETE /session: {reply}; expected a refusal (4xx)")
    return f"after DELETE /session: {reply}"


async def starts(context: WorkerContext) -> str:
    reply = await context.service.post("/session", context.options.session_payload())
    return str(reply.expect(200))


async def says_known_values(context: WorkerContext) -> str:
    context.session = await poll_status(
        context.session_status,
        known=SessionStatus,
        final=_FINAL,
        within_seconds=context.options.timeout_seconds,
    )
    context.session.expect_known_values()
    return str(context.session)


async def becomes_ready(context: WorkerContext) -> str:
    if context.session is None:
        raise CheckInconclusive("the session's status was never read")
    if not context.session_ready:
        raise CheckFailed(
            f"{context.session}; expected ready within {context.options.timeout_seconds:g} s"
        )
    return f"{context.session} after {context.session.seconds:.1f} s"


async def ends(context: WorkerContext) -> str:
    return str((await context.service.delete("/session")).expect(200))


async def ends_twice(context: WorkerContext) -> str:
    return f"a second time: {(await context.service.delete('/session')).expect(200)}"


def need_session(context: WorkerContext) -> None:
    if not context.session_ready:
        raise CheckInconclusive("no session was ready")


__all__ = [
    "becomes_ready",
    "ends",
    "ends_twice",
    "need_session",
    "refuses_scrape_without_session",
    "says_known_values",
    "starts",
]
