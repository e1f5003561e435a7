"""Procrastinate with its documented concurrency, the psycopg connector and LISTEN/NOTIFY."""

import logging
import os

from procrastinate import App, PsycopgConnector

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "20"))


def application(url):
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY + 4))

    @app.task(name="noop")
    async def noop(n):
        gate.done()

    @app.task(name="ping")
    async def pinged(sent):
        gate.arrived(sent)

    return app


async def setup(url):
    async with application(url).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def enqueue(url, kind, count):
    async with application(url).open_async() as app:
        bodies = protocol.payloads(count)
        with protocol.Stopwatch() as watch:
            await app.tasks[kind].batch_defer_async(*bodies)
    return watch.seconds


async def ping(url, count):
    async with application(url).open_async() as app:
        await protocol.pinging(count, lambda sent_ns: app.tasks["ping"].defer_async(sent=sent_ns))


async def work(url, kind):
    async with application(url).open_async() as app:
        app.job_manager.fetch_job = gate.watching(app.job_manager.fetch_job)
        gate.ready()
        await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)


logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it warns of an app in the main module
protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
