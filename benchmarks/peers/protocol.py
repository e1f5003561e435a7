"""The command line that every peer program speaks, so that one driver can measure all of them
alike.

    setup URL             create the peer's schema
    enqueue URL KIND N    enqueue N tasks with the peer's best bulk call; prints {"seconds": …}
    ping URL N            enqueue N single tasks about 10 ms apart, each carrying its own send time
    work URL KIND         print {"event": "ready"}, wait for a line on stdin, then work until stdin
      is closed

KIND is `noop`, `ping` (records the time since it was sent), `steps` (five durable steps) or
`sleep`. A worker prints {"event": "started", "ns": …} when it claims for the first time and counts
every finished handler in a small shared file, which the driver reads without disturbing the worker.
Only the standard library is used here.
"""

import asyncio
import inspect
import json
import mmap
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

STEPS = 5
SLEEP_SECONDS = 60.0
PING_GAP_SECONDS = 0.010


def say(**message):
    """One JSON line to the driver."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Counter:
    """The number of finished handlers of this process, in a shared file of eight bytes."""

    def __init__(self):
        self.count = 0

    def open(self):
        path = Path(os.environ["BENCH_COUNTERS"]) / str(os.getpid())
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 8)

    def add(self):
        self.count += 1
        struct.pack_into("<q", self.shared, 0, self.count)


class Gate:
    """Blocks the worker until the driver starts it; ends it when the driver closes stdin."""

    def __init__(self):
        self.counter = Counter()
        self.latencies_ns = []
        self.has_started = False

    def ready(self):
        self.counter.open()
        say(event="ready")
        os.read(0, 64)  # unbuffered: a pool that forks must not inherit a locked stdin
        threading.Thread(target=self._exit_with_stdin, daemon=True).start()

    def started(self):
        """Record the first claim; later calls cost nothing."""
        if not self.has_started:
            self.has_started = True
            say(event="started", ns=time.monotonic_ns())

    def watching(self, claim):
        """Wrap an async claim function so that its first call marks the start."""

        async def watched(*args, **kwargs):
            self.started()
            return await claim(*args, **kwargs)

        def watched_generator(*args, **kwargs):
            self.started()
            return claim(*args, **kwargs)

        return watched if inspect.iscoroutinefunction(claim) else watched_generator

    def done(self):
        self.counter.add()

    def arrived(self, sent_ns):
        self.latencies_ns.append(time.monotonic_ns() - sent_ns)
        self.counter.add()

    def _exit_with_stdin(self):
        while os.read(0, 64):
            pass
        say(event="stopped", latencies_ns=self.latencies_ns)
        os._exit(0)


gate = Gate()


class Stopwatch:
    """Seconds spent inside the `with` block."""

    def __enter__(self):
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.started


def payloads(count):
    return [{"n": n} for n in range(count)]


def ping_gap():
    return PING_GAP_SECONDS * random.uniform(0.5, 1.5)


async def pinging(count, send: Callable):
    """Await `send(sent_ns)` once per ping, with a random pause in between."""
    for _ in range(count):
        await asyncio.sleep(ping_gap())
        await send(time.monotonic_ns())


def run(function, *args):
    """Run a plain or an async function, the latter on uvloop where it is installed."""
    if not inspect.iscoroutinefunction(function):
        return function(*args)
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(function(*args))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(function(*args))


def main(*, setup, enqueue, ping, work):
    command, url, *rest = sys.argv[1:]
    if command == "setup":
        run(setup, url)
        say(event="done")
    elif command == "enqueue":
        kind, count = rest[0], int(rest[1])
        say(event="done", seconds=run(enqueue, url, kind, count))
    elif command == "ping":
        run(ping, url, int(rest[0]))
        say(event="done")
    elif command == "work":
        run(work, url, rest[0])
    else:
        raise SystemExit(f"unknown command {command!r}")
