"""Quotes, documents, embeddings and rounds in several runners that are killed, against a sandbox
that counts.

python -m tests.pipelines.lanes [KILLS] [AMOUNT]     10 and 4 by default
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regente import Regente
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.sources import NewDocument
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.rounds.operations import RoundOperations
from regente.settings import Settings
from tests.pipelines.lanes.counting_sandbox import CountingSandbox, Counts
from tests.support.runner_process import LoggedProcess

RUNNERS = 4
SERVICE_SECONDS = 0.05
LIMITS = {
    "analysis": 2,
    "search": 2,
    "shop": 3,
    "fipe": 2,
    "chat": 2,
    "embeddings": 2,
    "league": 2,
}
RATES = {"chat": 15.0, "league": 10.0}
PIPELINES = "quotes,documents,embeddings,rounds,matches"
OURS = {
    "JOB_LOCK_TTL_MS": "6000",
    "JOB_HEARTBEAT_INTERVAL_MS": "500",
    "REGENTE_SWEEP_SECONDS": "1",
    "REGENTE_MAX_CRASHES": "1000",
    "REGENTE_QUOTES_RETRY_SECONDS": "0.1",
    "REGENTE_QUOTES_PROVIDER_CONCURRENCY": "2",
    "REGENTE_QUOTES_SHOP_CONCURRENCY": "3",
    "REGENTE_DOCUMENTS_API_CONCURRENCY": "2",
    "REGENTE_DOCUMENTS_API_RATE": "15",
    "REGENTE_EMBEDDINGS_API_CONCURRENCY": "2",
    "REGENTE_EMBEDDINGS_API_KEY": "sk-test",
    "REGENTE_EMBEDDINGS_PGVECTOR": "off",
    "REGENTE_ROUNDS_SITE_CONCURRENCY": "2",
    "REGENTE_ROUNDS_PAUSE_SECONDS": "0.1",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    counts: Counts
    kills: int
    left: dict[str, int]
    waits: list[str]
    """Why tasks are left."""
    lanes: set[str]

    @property
    def exceeded(self) -> list[str]:
        most = self.counts.most
        return [f"{what}: {most[what]} at once" for what in LIMITS if most[what] > LIMITS[what]]


class Crew:
    """The runner processes; a killed one is replaced at once."""

    def __init__(self, database_url: str, sandbox_url: str, folder: Path) -> None:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REGENTE_", "JOB_")) and name != "OPENROUTER_API_KEY"
        }
        given = {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_SANDBOX_URL": sandbox_url,
            "REGENTE_DATA_DIR": str(folder),
            "REGENTE_EMBEDDINGS_BASE_URL": f"{sandbox_url}/openai/v1",
        }
        self._environment = {**clean, **OURS, **given}
        self._runners = [self._start() for _ in range(RUNNERS)]

    def _start(self) -> LoggedProcess:
        words = ["regente", "run", "--pipelines", PIPELINES, "--concurrency", "40"]
        return LoggedProcess(words, self._environment)

    def kill_one(self, dice: random.Random) -> None:
        position = dice.randrange(RUNNERS)
        self._runners[position].close()
        self._runners[position] = self._start()

    def close(self) -> None:
        for runner in self._runners:
            runner.close()


async def submit(app: Regente, amount: int, sandbox_url: str) -> None:
    quotes = [
        QuoteArgs(
            description=f"Volkswagen Gol 1.0 Flex ano 2015, {n}" if n % 4 == 0 else f"Cadeira {n}"
        )
        for n in range(8 * amount)
    ]
    await QuoteOperations(app).submit(quotes)
    texts = [f"um contrato {n}".encode() for n in range(20 * amount)]
    documents = [
        NewDocument(f"{n}.txt", len(text), partial(bytes, text)) for n, text in enumerate(texts)
    ]
    await DocumentOperations(app).submit_contents(documents, name="lanes")
    settings = EmbeddingSettings(
        base_url=f"{sandbox_url}/openai/v1", api_key="sk-test", texts_per_task=2
    )
    await EmbeddingOperations(app, settings).add(f"text number {n}" for n in range(40 * amount))
    for number in range(1, 1 + amount):
        await RoundOperations(app).start("brasileirao-2025", number)


async def run(database_url: str, folder: Path, *, kills: int, amount: int) -> Outcome:
    dice = random.Random(1)
    async with (
        CountingSandbox(SERVICE_SECONDS) as sandbox,
        Regente(database_url, settings=Settings(data_dir=folder)) as app,
    ):
        await submit(app, amount, sandbox.url)
        crew = await asyncio.to_thread(Crew, database_url, sandbox.url, folder)
        try:
            for _ in range(kills):
                await until_busy(sandbox.counts)
                await asyncio.sleep(dice.uniform(0.3, 1.5))
                await asyncio.to_thread(crew.kill_one, dice)
            left = await until_done(app)
        finally:
            await asyncio.to_thread(crew.close)
        queued = await app.tasks(statuses=["queued"])
        waits = [f"{one.pipeline} {one.id}: {await app.why(one.id)}" for one in queued]
        lanes = {lane.name.partition(":")[0] for lane in await app.lanes.list()}
        return Outcome(sandbox.counts, kills, left, waits, lanes)


async def until_busy(counts: Counts) -> None:
    while not any(counts.now.values()):
        await asyncio.sleep(0.01)


async def until_done(app: Regente, within_seconds: float = 400.0) -> dict[str, int]:
    """How many tasks have another status than a good end, by status."""
    deadline = time.monotonic() + within_seconds
    while True:
        counts = await app.counts()
        left = {
            status: count
            for status, count in counts.items()
            if count and status not in ("completed", "skipped")
        }
        open_ones = left.get("queued", 0) + left.get("running", 0)
        if not open_ones or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.2)
