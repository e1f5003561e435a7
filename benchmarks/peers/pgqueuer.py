"""PgQueuer at its best documented settings: asyncpg, uvloop, large batches."""

import asyncio
import json
import os

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.db import AsyncpgDriver

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

BATCH_SIZE = int(os.environ.get("BENCH_BATCH_SIZE", "500"))
CONSUMERS = int(os.environ.get("BENCH_CONSUMERS", "2"))  # each with a connection of its own


async def connect(url):
    return Queries(AsyncpgDriver(await asyncpg.connect(url)))


async def setup(url):
    queries = await connect(url)
    await queries.install()
    await queries.optimize_autovacuum()


async def enqueue(url, kind, count):
    queries = await connect(url)
    bodies = [json.dumps(payload).encode() for payload in protocol.payloads(count)]
    with protocol.Stopwatch() as watch:
        await queries.enqueue([kind] * count, bodies, [0] * count)
    return watch.seconds


async def ping(url, count):
    queries = await connect(url)
    await protocol.pinging(count, lambda sent_ns: queries.enqueue("ping", str(sent_ns).encode()))


async def consumer(url):
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    pgq.qm.queries.dequeue = gate.watching(pgq.qm.queries.dequeue)

    @pgq.entrypoint("noop")
    async def noop(job):
        gate.done()

    @pgq.entrypoint("ping")
    async def pinged(job):
        gate.arrived(int(job.payload))

    return pgq


async def work(url, kind):
    consumers = [await consumer(url) for _ in range(CONSUMERS)]
    gate.ready()
    await asyncio.gather(*(pgq.run(batch_size=BATCH_SIZE) for pgq in consumers))


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
