"""Celery on Redis: late acknowledgement, no result backend, large prefetch, the fastest pool."""

import os
import time
import warnings

from celery import Celery, signals

from benchmarks.peers import protocol
from benchmarks.peers.protocol import gate

POOL = os.environ.get("BENCH_POOL", "solo")
CONCURRENCY = os.environ.get("BENCH_CONCURRENCY", "1")
PREFETCH = int(os.environ.get("BENCH_PREFETCH", "128"))


def application(url):
    app = Celery("bench", broker=url)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=PREFETCH,
        task_default_delivery_mode="persistent",
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="noop")
    def noop(n):
        gate.done()

    @app.task(name="ping")
    def pinged(sent):
        gate.arrived(sent)

    return app


def setup(url):
    """Do nothing: a queue in Redis needs no schema."""


def enqueue(url, kind, count):
    """Enqueue in a loop over one producer, as the documentation recommends without a bulk call."""
    app = application(url)
    bodies = protocol.payloads(count)
    with app.producer_pool.acquire(block=True) as producer, protocol.Stopwatch() as watch:
        for body in bodies:
            app.tasks[kind].apply_async(kwargs=body, producer=producer)
    return watch.seconds


def ping(url, count):
    app = application(url)
    for _ in range(count):
        time.sleep(protocol.ping_gap())
        app.tasks["ping"].apply_async(kwargs={"sent": time.monotonic_ns()})


def work(url, kind):
    app = application(url)
    signals.worker_ready.connect(lambda **_: gate.started(), weak=False)

    @signals.worker_process_init.connect(weak=False)
    def count_in_the_child(**_):
        gate.counter.open()

    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    gate.ready()
    lean = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    pool = [
        f"--pool={POOL}",
        f"--concurrency={CONCURRENCY}",
        f"--hostname=bench{os.getpid()}@localhost",
    ]
    app.worker_main(["--quiet", "worker", "--loglevel=ERROR", *lean, *pool])


protocol.main(setup=setup, enqueue=enqueue, ping=ping, work=work)
