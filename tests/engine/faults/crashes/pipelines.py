"""Pipelines of the crash tests: every kind of effect and every outcome."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from regente import Lane, LaneLimits, Retry, Task, Throttled, Transient, pipeline
from tests.engine.helpers import falls_silent
from tests.support.current_app import application
from tests.support.sinks import ARRIVE, ExternalSink, store_arrival

SOON = Retry(max_attempts=2, first=0.01, jitter=False)


def external_sink() -> ExternalSink:
    return ExternalSink(Path(os.environ["EXTERNAL_SINK"]))


@pipeline("crash.work", retry=SOON)
async def work(task: Task) -> dict[str, int]:
    """An external effect, then a database effect."""
    number = await task.step("FETCH", fetch, task.idempotency_key("FETCH"), task)
    return {"number": number, "stored": await store_arrival(task, "STORE")}


@pipeline("crash.sleepy", retry=SOON)
async def sleepy(task: Task) -> str:
    await task.step("BEFORE", fetch, task.idempotency_key("BEFORE"), task)
    await task.sleep(0.05)
    async with task.transaction("AFTER") as connection:
        await connection.execute(ARRIVE, (task.id, "AFTER", task.attempt))
    return "slept"


@pipeline("crash.laned", retry=SOON, lane=lambda args: "a", lane_limits=LaneLimits(concurrency=2))
async def laned(task: Task) -> dict[str, int]:
    """As `crash.work`, two at a time."""
    return await work(task)


@pipeline("crash.calling", retry=SOON)
async def calling(task: Task) -> dict[str, int]:
    """As `crash.work`, with one external call at a time."""
    lane = Lane("provider", LaneLimits(concurrency=1))
    key = task.idempotency_key("FETCH")
    number = await task.step("FETCH", fetch, key, task, lane=lane)
    return {"number": number, "stored": await store_arrival(task, "STORE")}


@pipeline("crash.throttled", retry=SOON)
async def throttled(task: Task) -> str:
    """Throttled once; only a recorded step remembers it after a crash."""
    if not await task.done("TOLD"):
        await task.step("TOLD", fetch, task.idempotency_key("TOLD"), task)
        raise Throttled("slow down", retry_after=0.01)
    async with task.transaction("STORE") as connection:
        await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
    return "served"


@pipeline("crash.paying", retry=SOON)
async def paying(task: Task) -> str:
    """Makes no call a second time without a person's word."""
    await task.step("PAY", fetch, task.idempotency_key("PAY"), task, on_unknown="hold")
    async with task.transaction("STORE") as connection:
        await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
    return "paid"


@pipeline("crash.signaled", retry=SOON)
async def signaled(task: Task) -> str:
    """Receives the first of two signals, once."""
    if await task.wait_for("go", int) == 1:
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
    return "told"


@pipeline("crash.flaky", retry=SOON)
async def flaky(task: Task) -> str:
    """Fails once by its own fault."""
    if task.tries == 0:
        raise Transient("the first time always fails")
    return "second time lucky"


@pipeline("crash.silent", retry=SOON, stall_after=60)
async def silent(task: Task) -> str:
    """Hangs once, without a heartbeat."""
    if task.tries == 0:
        falls_silent(task)
        await asyncio.Event().wait()
    return "woken"


@pipeline("crash.long", retry=SOON)
async def long(task: Task) -> str:
    """Runs until it is told to stop, in the runner that is to crash; that runner may crash before
    it has claimed any task, so the attempt's number would not tell."""
    await task.progress(0.5, "UNDER_WAY")
    if os.environ.get("REGENTE_CRASH_POINT"):
        await asyncio.Event().wait()
    return "finished by another runner"


@pipeline("crash.slow", retry=SOON)
async def slow(task: Task) -> str:
    """Many small writes, so that a pause hits it between any two."""
    for number in range(10):
        await task.step(f"PART_{number}", pause)
    await store_arrival(task, "STORE")
    return "at last"


@pipeline("crash.parent", retry=SOON)
async def parent(task: Task) -> list[int]:
    """Enqueues with a key, which makes a repetition harmless."""
    return await task.step("SPREAD", spread, task.id)


@pipeline("crash.child", retry=SOON)
async def child(task: Task) -> str:
    async with task.transaction("STORE") as connection:
        await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
    return "stored"


@pipeline("crash.hurrying", retry=SOON)
async def hurrying(task: Task) -> list[int]:
    """Enqueues a task for tomorrow and changes that to now."""
    return await task.step("HURRY", hurry, task.id)


@pipeline("crash.spawning", retry=SOON)
async def spawning(task: Task) -> list[str]:
    """Spawns three tasks and waits for them."""
    return await task.spawn("SPREAD", "crash.child", [{}, {}, {}], of=str)


async def fetch(key: str, task: Task) -> int:
    external_sink().arrive(key, task.attempt)
    return 42


async def pause() -> None:
    await asyncio.sleep(0.01)


async def hurry(parent_id: int) -> list[int]:
    child = await application().enqueue(
        "crash.child",
        key=f"{parent_id}/hurried",
        batch=f"children of {parent_id}",
        run_at=datetime.now(UTC) + timedelta(days=1),
    )
    await application().change_many([child], run_at=None, priority=1)
    return [child]


async def spread(parent_id: int) -> list[int]:
    keys = [f"{parent_id}/{number}" for number in range(3)]
    batch = f"children of {parent_id}"
    return await application().enqueue_many(
        "crash.child", [{} for _ in keys], keys=keys, batch=batch
    )
