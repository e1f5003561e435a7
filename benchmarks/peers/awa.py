"""Awa through its Python bindings (Rust core): queue storage, COPY ingestion, async handlers."""

import asyncio
import os
from dataclasses import dataclass

from awa import AsyncClient

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

WORKERS = int(os.environ.get("BENCH_WORKERS", "1000"))
CONNECTIONS = 24
QUEUE = "bench"


@dataclass
class Noop:
    n: int


@dataclass
class Ping:
    sent: int


def connect(url, **options):
    """Add a host name, which its URL parser requires beside the socket directory."""
    return AsyncClient(url.replace("@/", "@localhost/", 1), **options)


async def setup(url):
    client = connect(url)
    await client.migrate()
    await client.install_queue_storage(schema="awa")  # the engine that it recommends since 0.6
    await client.close()


async def enqueue(url, kind, count):
    client = connect(url)
    jobs = [Noop(payload["n"]) for payload in protocol.payloads(count)]
    with protocol.Stopwatch() as watch:
        await client.enqueue_many_copy(jobs, kind=kind, queue=QUEUE)
    return watch.seconds


async def ping(url, count):
    client = connect(url)
    await protocol.pinging(
        count, lambda sent_ns: client.insert(Ping(sent_ns), kind="ping", queue=QUEUE)
    )


async def work(url, kind):
    client = connect(url, max_connections=CONNECTIONS)

    @client.task(Noop, kind="noop", queue=QUEUE)
    async def noop(job):
        gate.done()

    @client.task(Ping, kind="ping", queue=QUEUE)
    async def pinged(job):
        gate.arrived(job.args.sent)

    gate.ready()
    gate.started()  # the claim loop is in the Rust core; `start()` starts it at once
    await client.start([(QUEUE, WORKERS)])
    await asyncio.Event().wait()


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
