"""Absurd (its Python SDK): several async workers, each with a connection and claimed batches."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psycopg
from absurd_sdk import AsyncAbsurd

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

WORKERS = int(os.environ.get("BENCH_WORKERS", "4"))
WORKERS_FOR_STEPS = int(os.environ.get("BENCH_WORKERS", "8"))
BATCH_SIZE = int(os.environ.get("BENCH_BATCH_SIZE", "25"))
POLL_SECONDS = 0.01
QUEUE = "default"


def setup(url):
    control = Path(sys.executable).with_name("absurdctl")
    environment = {**os.environ, "ABSURD_DATABASE_URL": url}
    for arguments in (["init"], ["create-queue", QUEUE]):
        subprocess.run(
            [control, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
        )


async def enqueue(url, kind, count):
    """Enqueue in one transaction: the SDK has no bulk call, and this is its fastest form."""
    connection = await psycopg.AsyncConnection.connect(url)
    app = AsyncAbsurd(connection, queue_name=QUEUE)
    bodies = protocol.payloads(count)
    with protocol.Stopwatch() as watch:
        async with connection.transaction():
            for body in bodies:
                await app.spawn(kind, body, queue=QUEUE)
    return watch.seconds


async def ping(url, count):
    app = AsyncAbsurd(url, queue_name=QUEUE)
    await protocol.pinging(count, lambda sent_ns: app.spawn("ping", {"sent": sent_ns}, queue=QUEUE))


async def worker(url):
    app = AsyncAbsurd(url, queue_name=QUEUE)
    await app._ensure_connected()
    app.claim_tasks = gate.watching(app.claim_tasks)

    @app.register_task("noop")
    async def noop(params, context):
        gate.done()

    @app.register_task("ping")
    async def pinged(params, context):
        gate.arrived(params["sent"])

    @app.register_task("steps")
    async def steps(params, context):
        async def step():
            return params["n"]

        for number in range(protocol.STEPS):
            await context.step(f"step-{number}", step)
        gate.done()

    return app


async def work(url, kind):
    workers = [await worker(url) for _ in range(WORKERS_FOR_STEPS if kind == "steps" else WORKERS)]
    gate.ready()
    await asyncio.gather(
        *(
            app.start_worker(
                worker_id=f"{os.getpid()}-{number}",
                concurrency=BATCH_SIZE,
                batch_size=BATCH_SIZE,
                poll_interval=POLL_SECONDS,
            )
            for number, app in enumerate(workers)
        )
    )


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
