"""`python -m benchmarks.quotes`: 10,000 quotes on 5 runners × 20, with random kills.

The provider's counts of charges are the check: all quotes end, none is lost, none is charged
twice. With `--ignored-keys 1` the providers charge every call and ignore its idempotency key: then
each call that was under way when a kill ended its attempt is repeated at most once, and the repeats
are counted.
With `--hold 1` too, none is repeated: such quotes wait for a person, and are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
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
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.standins.market import SHOPS
from regente.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
LOOK_SECONDS = 0.2
VEHICLE_EVERY = 10


@dataclass(frozen=True)
class Plan:
    quotes: int = 10_000
    processes: int = 5
    concurrency: int = 20
    connections: int = 50
    """How many there may be at most, with the default settings."""
    kills: int = 10
    seed: int = 1
    ignored_keys: int = 0
    """1: the providers know no idempotency keys."""
    hold: int = 0
    """1: a paid call with an unknown outcome waits for a person."""
    answer_ms: int = 0
    """From a charge to its answer: how long a kill finds the call under way."""
    give_up_seconds: float = 3600.0


@dataclass(frozen=True)
class Outcome:
    quotes: int
    completed: int
    other_ends: int
    waiting: int
    """Quotes that wait for a person's decision."""
    lost: int
    kills: int
    recovered: int
    analyses_paid: int
    searches_paid: int
    products_paid: int
    """Look-ups of shops' pages."""
    paid_more_than_once: int
    paid_again: int
    """Charges beyond the first of each order."""
    most_for_one: int
    seconds: float
    quotes_per_second: float
    most_connections: int

    def is_sound(self, plan: Plan) -> bool:
        vehicles = len(range(0, plan.quotes, VEHICLE_EVERY))
        orders = plan.quotes + (plan.quotes - vehicles) * (1 + len(SHOPS))
        at_once = QuotesSettings().products_at_once
        repeats = at_once * self.recovered if plan.ignored_keys and not plan.hold else 0
        once = self.analyses_paid + self.searches_paid + self.products_paid - self.paid_again
        return (
            (self.completed + self.waiting, self.other_ends, self.lost) == (plan.quotes, 0, 0)
            and self.waiting <= (self.recovered if plan.hold else 0)
            and orders - (2 + len(SHOPS)) * self.waiting <= once <= orders
            and self.paid_again <= repeats
            and self.most_connections <= plan.connections
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
            "JOB_LOCK_TTL_MS": "4000",
            "JOB_HEARTBEAT_INTERVAL_MS": "500",
            "REGENTE_SWEEP_SECONDS": "1",
            "REGENTE_MAX_CRASHES": "1000",
            "REGENTE_QUOTES_RETRY_SECONDS": "0.1",
            "REGENTE_QUOTES_CONCURRENCY": str(plan.concurrency),
            "REGENTE_QUOTES_ANALYSIS_ON_UNKNOWN": "hold" if plan.hold else "retry",
            "REGENTE_QUOTES_SEARCH_ON_UNKNOWN": "hold" if plan.hold else "retry",
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
        await asyncio.to_thread(_set_billing, sandbox_url, plan)
        began_at = time.monotonic()
        submission = Submission(plan, QuoteOperations(app))
        crew = Crew(plan, database_url, sandbox_url, folder)
        try:
            most, kills = await conduct(plan, app, submission, crew, database_url)
        finally:
            crew.close()
        seconds = time.monotonic() - began_at
        store = await app.batch("benchmark")
        async with app.database.connection() as connection:
            [(recovered,)] = await (await connection.execute(_RECOVERED)).fetchall()
            [(waiting,)] = await (await connection.execute(_WAITING)).fetchall()
    paid = await asyncio.to_thread(_paid, sandbox_url)
    charges = [count for keys in paid.values() for count in keys.values()]
    ended = store.completed + store.failed + store.canceled + store.skipped
    quotes = len(set(submission.ids))
    return Outcome(
        quotes=quotes,
        completed=store.completed,
        other_ends=ended - store.completed,
        waiting=waiting,
        lost=quotes - ended - waiting,
        kills=kills,
        recovered=recovered,
        analyses_paid=sum(paid["analysis"].values()),
        searches_paid=sum(paid["search"].values()),
        products_paid=sum(paid["product"].values()),
        paid_more_than_once=sum(count > 1 for count in charges),
        paid_again=sum(count - 1 for count in charges),
        most_for_one=max(charges, default=0),
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


class Submission:
    """Submits the quotes a little ahead of each kill, so that none has ended before it."""

    AHEAD = 0.1

    def __init__(self, plan: Plan, operations: QuoteOperations) -> None:
        self.ids: list[int] = []
        self._operations = operations
        self._quotes = descriptions(plan)

    async def up_to(self, share: float) -> None:
        """Submit so many that work is left when `share` of all quotes has ended."""
        end = math.ceil(len(self._quotes) * min(share + self.AHEAD, 1.0))
        portion = self._quotes[len(self.ids) : end]
        if portion:
            self.ids += (await self._operations.submit(portion, lot="benchmark")).ids


async def conduct(
    plan: Plan, app: Regente, submission: Submission, crew: Crew, database_url: str
) -> tuple[int, int]:
    """Wait until every quote has ended, and kill runners at moments that the seed decides."""
    chance = random.Random(plan.seed)
    due = sorted(chance.uniform(0.05, 0.85) for _ in range(plan.kills))
    await submission.up_to(due[0] if due else 1.0)
    most = kills = 0
    give_up_at = time.monotonic() + plan.give_up_seconds
    with psycopg.connect(database_url, autocommit=True, application_name="observer") as connection:
        while True:
            row = connection.execute(_CONNECTIONS).fetchone()
            most = max(most, row[0] if row else 0)
            store = await app.batch("benchmark")
            row = connection.execute(_WAITING).fetchone()
            ended = store.completed + store.failed + store.canceled + store.skipped
            done = (ended + (row[0] if row else 0)) / plan.quotes
            if done >= 1 or time.monotonic() > give_up_at:
                return most, kills
            while kills < len(due) and due[kills] <= done:
                crew.kill_one(chance)
                kills += 1
                await submission.up_to(due[kills] if kills < len(due) else 1.0)
            await asyncio.sleep(LOOK_SECONDS)


# Includes the benchmark's own app, and killed runners until the server notices.
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'regente%' AND client_port IS NOT NULL
"""
_WAITING = """
SELECT count(*) FROM regente.tasks
WHERE status = 'queued' AND regente.is_held(run_at) AND error_code = 'UNKNOWN_OUTCOME'
"""
_RECOVERED = "SELECT count(*) FROM regente.events WHERE event = 'task_recovered'"


def _paid(sandbox_url: str) -> dict[str, dict[str, int]]:
    with urllib.request.urlopen(f"{sandbox_url}/quotes/admin/paid", timeout=30) as answer:
        found: dict[str, dict[str, int]] = json.loads(answer.read())
        return found


def _set_billing(sandbox_url: str, plan: Plan) -> None:
    billing = {
        "honours_keys": not plan.ignored_keys,
        "answer_seconds": plan.answer_ms / 1000,
    }
    request = urllib.request.Request(
        f"{sandbox_url}/quotes/admin/billing",
        json.dumps(billing).encode(),
        {"content-type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


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
    numbers = ("quotes", "processes", "concurrency", "connections", "kills", "seed")
    for name in (*numbers, "ignored_keys", "hold", "answer_ms"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=getattr(Plan, name))
    return Plan(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
