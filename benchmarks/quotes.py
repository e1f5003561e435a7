"""`python -m benchmarks.quotes`: 10,000 quotes on 5 runners × 20, with random kills.

The provider's counts of charges are the check: all quotes end, none is lost, none is charged
twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from regente import Regente
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
ENGINE_CONNECTIONS = 7
"""Connections of one runner besides its pipelines': pool, claims, listener, lease."""
OWN_CONNECTIONS = 5
"""Connections of the benchmark itself, which look like a runner's."""
LOOK_SECONDS = 0.2
VEHICLE_EVERY = 10


@dataclass(frozen=True)
class Plan:
    quotes: int = 10_000
    processes: int = 5
    concurrency: int = 20
    connections: int = 50
    kills: int = 10
    seed: int = 1
    give_up_seconds: float = 3600.0

    @property
    def pool_size(self) -> int:
        return max(1, (self.connections - OWN_CONNECTIONS) // self.processes - ENGINE_CONNECTIONS)


@dataclass(frozen=True)
class Outcome:
    quotes: int
    completed: int
    other_ends: int
    lost: int
    kills: int
    recovered: int
    analyses_paid: int
    searches_paid: int
    paid_more_than_once: int
    seconds: float
    quotes_per_second: float
    most_connections: int

    def is_sound(self, plan: Plan) -> bool:
        vehicles = len(range(0, plan.quotes, VEHICLE_EVERY))
        counts = (self.completed, self.other_ends, self.lost, self.paid_more_than_once)
        paid = (self.analyses_paid, self.searches_paid)
        within = self.most_connections <= plan.connections
        return (
            counts == (plan.quotes, 0, 0, 0)
            and paid == (plan.quotes, plan.quotes - vehicles)
            and within
        )


class Crew:
    """The runner processes; a killed one is replaced at once."""

    def __init__(self, plan: Plan, database_url: str, sandbox_url: str, folder: Path) -> None:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REGENTE_", "JOB_"))
        }
        self._environment = clean | {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_SANDBOX_URL": sandbox_url,
            "REGENTE_DATA_DIR": str(folder),
            "REGENTE_DATABASE_POOL_SIZE": str(plan.pool_size),
            "JOB_LOCK_TTL_MS": "4000",
            "JOB_HEARTBEAT_INTERVAL_MS": "500",
            "REGENTE_SWEEP_SECONDS": "1",
            "REGENTE_MAX_CRASHES": "1000",
            "REGENTE_QUOTES_RETRY_SECONDS": "0.1",
            "REGENTE_QUOTES_CONCURRENCY": str(plan.concurrency),
        }
        self._words = [
            "run",
            "--pipelines",
            "quotes",
            "--concurrency",
            str(plan.concurrency),
            "--log-level",
            "error",
        ]
        self._runners = [self._start() for _ in range(plan.processes)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "regente", *self._words],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill_one(self, chance: random.Random) -> None:
        index = chance.randrange(len(self._runners))
        self._end(self._runners[index])
        self._runners[index] = self._start()

    def close(self) -> None:
        for runner in self._runners:
            self._end(runner)

    @staticmethod
    def _end(runner: subprocess.Popen[bytes]) -> None:
        runner.kill()
        runner.wait()


async def campaign(plan: Plan, database_url: str, sandbox_url: str, folder: Path) -> Outcome:
    async with Regente(
        database_url, settings=Settings(data_dir=folder), components=["quotes"]
    ) as app:
        began_at = time.monotonic()
        ids = (await QuoteOperations(app).submit(descriptions(plan), lot="benchmark")).ids
        crew = Crew(plan, database_url, sandbox_url, folder)
        try:
            most, kills = await conduct(plan, app, crew, database_url)
        finally:
            crew.close()
        seconds = time.monotonic() - began_at
        store = await app.batch("benchmark")
        async with app.database.connection() as connection:
            [(recovered,)] = await (await connection.execute(_RECOVERED)).fetchall()
    paid = await asyncio.to_thread(_paid, sandbox_url)
    ended = store.completed + store.failed + store.canceled + store.skipped
    return Outcome(
        quotes=len(set(ids)),
        completed=store.completed,
        other_ends=ended - store.completed,
        lost=len(set(ids)) - ended,
        kills=kills,
        recovered=recovered,
        analyses_paid=sum(paid["analysis"].values()),
        searches_paid=sum(paid["search"].values()),
        paid_more_than_once=sum(count > 1 for keys in paid.values() for count in keys.values()),
        seconds=round(seconds, 1),
        quotes_per_second=round(store.completed / seconds, 1),
        most_connections=most,
    )


def descriptions(plan: Plan) -> list[QuoteArgs]:
    return [
        QuoteArgs(
            description=f"Fiat Uno Mille {2008 + number % 17}"
            if number % VEHICLE_EVERY == 0
            else f"Item de teste {number}"
        )
        for number in range(plan.quotes)
    ]


async def conduct(plan: Plan, app: Regente, crew: Crew, database_url: str) -> tuple[int, int]:
    """Wait until every quote has ended, and kill runners at moments that the seed decides."""
    chance = random.Random(plan.seed)
    due = sorted(chance.uniform(0.05, 0.9) for _ in range(plan.kills))
    most = kills = 0
    give_up_at = time.monotonic() + plan.give_up_seconds
    with psycopg.connect(database_url, autocommit=True, application_name="observer") as connection:
        while True:
            row = connection.execute(_CONNECTIONS).fetchone()
            most = max(most, row[0] if row else 0)
            store = await app.batch("benchmark")
            done = (store.completed + store.failed + store.canceled + store.skipped) / store.total
            if done >= 1 or time.monotonic() > give_up_at:
                return most, kills
            while kills < len(due) and due[kills] <= done:
                crew.kill_one(chance)
                kills += 1
            await asyncio.sleep(LOOK_SECONDS)


# Includes the benchmark's own app, and killed runners until the server notices.
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'regente%' AND client_port IS NOT NULL
"""
_RECOVERED = "SELECT count(*) FROM regente.events WHERE event = 'task_recovered'"


def _paid(sandbox_url: str) -> dict[str, dict[str, int]]:
    with urllib.request.urlopen(f"{sandbox_url}/quotes/admin/paid", timeout=30) as answer:
        found: dict[str, dict[str, int]] = json.loads(answer.read())
        return found


@contextlib.contextmanager
def sandbox_process() -> Iterator[str]:
    """The sandbox as a separate process, so that serving the providers is not measured."""
    words = [
        sys.executable,
        "-m",
        "regente",
        "sandbox",
        "--port",
        "0",
        "--proxies",
        "0",
        "--json",
        "--log-level",
        "error",
    ]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["library_url"])
        finally:
            process.terminate()


def main() -> None:
    from benchmarks.servers import PostgresServer

    plan = _plan()
    with (
        tempfile.TemporaryDirectory(prefix="bench-quotes-") as folder,
        PostgresServer() as server,
        sandbox_process() as url,
    ):
        outcome = asyncio.run(campaign(plan, server.url("postgres"), url, Path(folder)))
    shown: dict[str, Any] = {
        "plan": asdict(plan),
        "outcome": asdict(outcome),
        "sound": outcome.is_sound(plan),
    }
    print(json.dumps(shown, indent=2))
    sys.exit(0 if outcome.is_sound(plan) else 1)


def _plan() -> Plan:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quotes", description=__doc__)
    for name in ("quotes", "processes", "concurrency", "connections", "kills", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    return Plan(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
