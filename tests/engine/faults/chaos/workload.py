"""Pipelines of the chaos runners; each leaves traces that a checker counts without the engine."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass
from pathlib import Path

from regente import Fatal, Lane, LaneLimits, Retry, Task, Throttled, Transient, pipeline
from tests.support.sinks import ARRIVE, ExternalSink, store_arrival

LONGEST_BACKOFF_SECONDS = 0.5
LONGEST_TASK_SECONDS = 2.0
RETRY = Retry(max_attempts=2, first=LONGEST_BACKOFF_SECONDS, jitter=True)


@dataclass(frozen=True, slots=True)
class Expected:
    """How a task must end, independent of the faults that its runners met."""

    share: int
    status: str = "completed"
    tries: int = 0
    stored: tuple[str, ...] = ()
    external: tuple[str, ...] = ()


EXPECTED: dict[str, Expected] = {
    "chaos.noop": Expected(40),
    "chaos.steps": Expected(24, stored=("STORE", "CLOSE")),
    "chaos.external": Expected(12, external=("CALL",)),
    "chaos.flaky": Expected(8, tries=1, stored=("STORE",)),
    "chaos.throttled": Expected(6, stored=("STORE",), external=("TOLD",)),
    "chaos.sleepy": Expected(6, stored=("BEFORE", "AFTER")),
    "chaos.fatal": Expected(4, status="failed", tries=1),
}


def draw_tasks(seed: int, count: int) -> list[tuple[str, dict[str, int]]]:
    """(pipeline, arguments) of task 0, 1, …; one in twenty is slow, so that faults hit it
    running."""
    dice = random.Random(seed + 1)
    names = dice.choices(
        [*EXPECTED], weights=[expected.share for expected in EXPECTED.values()], k=count
    )
    slow = [dice.random() < 0.05 for _ in range(count)]
    return [
        (name, {"n": n, "ms": dice.randint(400, 1500) if slow[n] else dice.randint(0, 60)})
        for n, name in enumerate(names)
    ]


@pipeline("chaos.noop", retry=RETRY)
async def noop(task: Task) -> None:
    """Returns at once."""


def of_ten(args: dict[str, int]) -> str:
    """One of ten lanes."""
    return f"lane {args['n'] % 10}"


@pipeline("chaos.steps", retry=RETRY, lane=of_ten, lane_limits=LaneLimits(concurrency=5, breaker=0))
async def steps(task: Task) -> int:
    seen = await task.step("READ", work, task.args["ms"] / 2)
    await store(task, "STORE")
    lane = Lane(f"thinking {task.args['n'] % 10}", LaneLimits(concurrency=5, breaker=0))
    await task.step("THINK", work, task.args["ms"] / 2, lane=lane)
    await store(task, "CLOSE")
    return seen


@pipeline("chaos.external", retry=RETRY, lane=of_ten)
async def external(task: Task) -> str:
    await task.step("CALL", call, task.idempotency_key("CALL"), task, task.args["ms"])
    return "called"


@pipeline("chaos.flaky", retry=RETRY)
async def flaky(task: Task) -> str:
    """Fails once by its own fault: exactly one attempt is charged."""
    await work(task.args["ms"])
    if task.tries == 0:
        raise Transient("the first try always fails")
    await store(task, "STORE")
    return "done"


@pipeline("chaos.throttled", retry=RETRY, lane=lambda args: f"throttled {args['n'] % 50}")
async def throttled(task: Task) -> str:
    if not await task.done("TOLD"):
        await task.step("TOLD", call, task.idempotency_key("TOLD"), task, 0)
        raise Throttled("slow down", retry_after=LONGEST_BACKOFF_SECONDS)
    await store(task, "STORE")
    return "done"


@pipeline("chaos.sleepy", retry=RETRY)
async def sleepy(task: Task) -> str:
    await store(task, "BEFORE")
    await task.sleep(LONGEST_BACKOFF_SECONDS)
    await store(task, "AFTER")
    return "rested"


@pipeline("chaos.fatal", retry=RETRY)
async def fatal(task: Task) -> None:
    await work(task.args["ms"])
    raise Fatal("this one is beyond repair")


async def store(task: Task, step: str) -> None:
    """An effect inside the database."""
    if task.id % 2:
        await store_arrival(task, step)
        return
    async with task.transaction(step) as connection:
        await connection.execute(ARRIVE, (task.id, step, task.attempt))


async def work(milliseconds: float) -> int:
    await asyncio.sleep(milliseconds / 1000)
    return int(milliseconds)


async def call(key: str, task: Task, milliseconds: int) -> int:
    """An effect outside the database, done as soon as the line is written."""
    await asyncio.sleep(milliseconds / 2000)
    ExternalSink(Path(os.environ["EXTERNAL_SINK"])).arrive(key, task.attempt)
    await asyncio.sleep(milliseconds / 2000)
    return task.attempt
