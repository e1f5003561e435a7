"""`python -m benchmarks.commits`: commits per second of sessions that enqueue, with NOTIFY and
without.

12 processes enqueue one task after the other, each by itself or within a transaction of its own,
while one session listens. Rounds with and without hints take turns; the wanted ratio is 0.8.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from statistics import median

import psycopg
from psycopg import AsyncConnection

from benchmarks import machine
from benchmarks.servers import PostgresServer
from regente import Regente
from regente.app import prepare_schema
from regente.engine.hints import Hints
from regente.engine.pipeline import Registry

DATABASE = "bench_commits"
WANTED_RATIO = 0.8
WAYS = ("alone", "transaction")
NOTIFIES = ("yes", "no")


async def enqueue_until_told(url: str, way: str) -> int:
    """Enqueue from the first line on stdin to the second; return how often."""
    pipelines = Registry()
    pipelines.declare("noop")
    loop, count = asyncio.get_running_loop(), 0
    async with (
        Regente(url, pipelines=pipelines) as app,
        await AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        await app.enqueue("noop", {})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await loop.run_in_executor(None, sys.stdin.readline)
        told = loop.run_in_executor(None, sys.stdin.readline)
        while not told.done():
            if way == "alone":
                await app.enqueue("noop", {})
            else:
                async with connection.transaction():
                    await app.enqueue("noop", {}, connection=connection)
            count += 1
    return count


def session(url: str, way: str, notifies: str) -> None:
    """One of the processes."""
    if notifies == "no":
        for name, answer in (("may_send", False), ("send", None), ("send_after", None)):
            setattr(Hints, name, lambda *_, answer=answer: answer)
    count = asyncio.run(enqueue_until_told(url, way))
    sys.stdout.write(json.dumps(count) + "\n")


@contextmanager
def listener(url: str) -> Iterator[None]:
    """A session that receives every hint, as a runner does."""
    done = threading.Event()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN regente_queued")

        def receive() -> None:
            while not done.is_set():
                for _ in connection.notifies(timeout=0.2):
                    pass

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def commits_per_second(url: str, way: str, notifies: str, sessions: int, seconds: float) -> float:
    command = [sys.executable, "-m", "benchmarks.commits", "--session", url, way, notifies]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(sessions)
    ]
    try:
        for process in processes:
            process.stdout.readline()  # type: ignore[union-attr]
        tell(processes, "go")
        time.sleep(seconds)
        tell(processes, "stop")  # all at once: ending takes each a while
        counts = [int(process.communicate()[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return sum(counts) / seconds


def tell(processes: list[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description=__doc__)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 3 seconds")
    parser.add_argument("--session", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.session:
        session(*options.session)
        return 0
    rounds, seconds = (3, 3.0) if options.quick else (options.rounds, options.seconds)
    rates: dict[tuple[str, str], list[float]] = {}
    with PostgresServer() as postgres:
        for number, way in product(range(rounds), WAYS):
            for notifies in NOTIFIES[:: 1 if number % 2 else -1]:
                url = postgres.fresh_database(DATABASE)
                asyncio.run(prepare_schema(url, upgrade=True))
                with listener(url):
                    rate = commits_per_second(url, way, notifies, options.sessions, seconds)
                rates.setdefault((way, notifies), []).append(rate)
                print(
                    f"round {number + 1}  {way:<11}  NOTIFY {notifies:<3}  {rate:>7,.0f} "
                    f"commits/s  load {machine.load():.2f}",
                    flush=True,
                )
    return 0 if verdict(rates) else 1


def verdict(rates: dict[tuple[str, str], list[float]]) -> bool:
    """The median of each round's ratio: a disturbance affects both sides of a round."""
    fine = True
    print(f"\n{'enqueue':<11} {'with NOTIFY':>12} {'without':>9} {'ratio':>6}   wanted 0.8")
    for way in WAYS:
        with_it, without = rates[way, "yes"], rates[way, "no"]
        ratio = median(one / other for one, other in zip(with_it, without, strict=True))
        fine = fine and ratio >= WANTED_RATIO
        word = "ok" if ratio >= WANTED_RATIO else "too slow"
        rate, bare = median(with_it), median(without)
        print(f"{way:<11} {rate:>12,.0f} {bare:>9,.0f} {ratio:>6.2f}   {word}")
    return fine


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
