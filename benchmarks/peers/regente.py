"""Regente through its public API: one pipeline per kind of task, with default durability."""

import asyncio
import os

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate
from regente import LaneLimits, Regente, Task, pipeline
from regente.engine.task_store import TaskStore

CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "1000"))
SLEEPERS = 5_000
LANES = int(os.environ.get("BENCH_LANES", "10000"))
LIMIT = int(os.environ.get("BENCH_LANE_LIMIT", "0")) or None


@pipeline("noop")
async def noop(task: Task) -> None:
    gate.done()


@pipeline(
    "laned",
    lane=lambda args: f"host-{args['n'] % LANES}.example",
    lane_limits=LaneLimits(concurrency=LIMIT, breaker=0),
)
async def laned(task: Task) -> None:
    gate.done()


@pipeline("ping")
async def pinged(task: Task) -> None:
    gate.arrived(task.args["sent"])


async def step(n):
    return n


@pipeline("steps")
async def steps(task: Task) -> None:
    for number in range(protocol.STEPS):
        await task.step(f"step-{number}", step, task.args["n"])
    gate.done()


@pipeline("sleep")
async def sleeping(task: Task) -> None:
    gate.done()
    await asyncio.sleep(protocol.SLEEP_SECONDS)


async def setup(url):
    async with Regente(database_url=url):
        pass


async def enqueue(url, kind, count):
    async with Regente(database_url=url) as app:
        bodies = protocol.payloads(count)
        with protocol.Stopwatch() as watch:
            await app.enqueue_many(kind, bodies)
    return watch.seconds


async def ping(url, count):
    async with Regente(database_url=url) as app:
        await protocol.pinging(count, lambda sent_ns: app.enqueue("ping", {"sent": sent_ns}))


async def work(url, kind):
    TaskStore.survey = gate.watching(
        TaskStore.survey
    )  # its first query of the queue is just before its first claim
    async with Regente(database_url=url) as app:
        gate.ready()
        await app.run(pipelines=[kind], concurrency=SLEEPERS if kind == "sleep" else CONCURRENCY)


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
