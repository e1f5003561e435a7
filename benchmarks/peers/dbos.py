"""DBOS Transact: a queue at its fastest polling, with larger thread and connection pools."""

import os
import threading

import sqlalchemy
from dbos import DBOS, DBOSClient
from dbos._sys_db import SystemDatabase

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

QUEUE = "bench"
VERSION = "bench"
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "100"))
THREADS = int(os.environ.get("BENCH_THREADS", "8"))
POLL_SECONDS = 0.01


@DBOS.workflow(name="noop")
def noop(n):
    gate.done()


@DBOS.workflow(name="ping")
def pinged(sent):
    gate.arrived(sent)


@DBOS.step()
def step(n):
    return n


@DBOS.workflow(name="steps")
def steps(n):
    for _ in range(protocol.STEPS):
        step(n)
    gate.done()


def psycopg_url(url):
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def launch(url):
    DBOS(
        config={
            "name": "bench",
            "system_database_url": psycopg_url(url),
            "sys_db_pool_size": THREADS + 4,
            "max_executor_threads": THREADS,
            "application_version": VERSION,
            "executor_id": str(os.getpid()),
            "log_level": "ERROR",
            "enable_otlp": False,
        }
    )
    DBOS.launch()


def setup(url):
    launch(url)
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_SECONDS)
    DBOS.destroy()


def options(kind):
    return {"queue_name": QUEUE, "workflow_name": kind, "app_version": VERSION}


def enqueue(url, kind, count):
    """Enqueue in one transaction: the client has no bulk call, and this is its fastest form."""
    client = DBOSClient(system_database_url=psycopg_url(url), application_name="bench")
    engine = sqlalchemy.create_engine(psycopg_url(url))
    wanted = options(kind)
    with engine.connect() as connection, protocol.Stopwatch() as watch, connection.begin():
        for n in range(count):
            client.enqueue_in_transaction(connection, wanted, n)
    return watch.seconds


async def ping(url, count):
    client = DBOSClient(system_database_url=psycopg_url(url), application_name="bench")
    await protocol.pinging(count, lambda sent_ns: client.enqueue_async(options("ping"), sent_ns))


def work(url, kind):
    claim = SystemDatabase.start_queued_workflows

    def watched(self, queue, *args, **kwargs):
        if queue.name == QUEUE:
            gate.started()
        return claim(self, queue, *args, **kwargs)

    SystemDatabase.start_queued_workflows = watched
    gate.ready()
    launch(url)
    threading.Event().wait()


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
