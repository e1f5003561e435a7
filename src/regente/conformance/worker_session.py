"""Checks of a Worker's session: locked, started, ready in time, ended, ended again."""

from __future__ import annotations

from regente.conformance.checks import Unmet, Unproven
from regente.conformance.watching import watch
from regente.conformance.worker_bench import WorkerBench
from regente.contracts.worker import SessionStatus

_FINAL = frozenset(
    {SessionStatus.READY, SessionStatus.STUCK, SessionStatus.DISCONNECTED, SessionStatus.TERMINATED}
)


async def refuses_scrape_without_session(bench: WorkerBench) -> str:
    await bench.service.delete("/session")
    reply = await bench.scrape()
    # 500 is a crash, not a refusal.
    if (
        reply.trouble
        or reply.status is None
        or not (400 <= reply.status < 500 or reply.status == 503)
    ):
        await bench.clear_away(reply)
        raise Unmet(f"after DELETE /session: {reply}; expected a refusal (4xx)")
    return f"after DELETE /session: {reply}"


async def starts(bench: WorkerBench) -> str:
    reply = await bench.service.post("/session", bench.options.session_payload())
    return str(reply.expect(200))


async def says_known_values(bench: WorkerBench) -> str:
    bench.session = await watch(
        bench.session_status,
        known=SessionStatus,
        final=_FINAL,
        within_seconds=bench.options.timeout_seconds,
    )
    bench.session.expect_known_values()
    return str(bench.session)


async def becomes_ready(bench: WorkerBench) -> str:
    if bench.session is None:
        raise Unproven("the session's status was never asked for")
    if not bench.session_ready:
        raise Unmet(f"{bench.session}; expected ready within {bench.options.timeout_seconds:g} s")
    return f"{bench.session} after {bench.session.seconds:.1f} s"


async def ends(bench: WorkerBench) -> str:
    return str((await bench.service.delete("/session")).expect(200))


async def ends_twice(bench: WorkerBench) -> str:
    return f"a second time: {(await bench.service.delete('/session')).expect(200)}"


def need_session(bench: WorkerBench) -> None:
    if not bench.session_ready:
        raise Unproven("no session was ready")


__all__ = [
    "becomes_ready",
    "ends",
    "ends_twice",
    "need_session",
    "refuses_scrape_without_session",
    "says_known_values",
    "starts",
]
