"""`python -m tests.pipelines.embeddings.faults.campaign --texts 100000 --kills 10`: runners under
kills. With `--ignored-keys` the provider charges each repeated call.

Every distinct content must end with exactly one vector, the right one. The checker knows which
contents there are because it drew them, and asks the tables and the stand-in, never the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from regente import Regente
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.standins.openai_embeddings import FaultKind, OpenAiEmbeddings
from regente.postgres.embedded import EmbeddedPostgres
from regente.services.sandbox.sandbox import Sandbox
from tests.pipelines.embeddings.processes import Runners, runners

DIMENSIONS = 64
MODEL = f"text-embedding-3-small@{DIMENSIONS}"
REPEATED_SHARE = 0.2
LOOK_EVERY_SECONDS = 0.05
TIMEOUT_SECONDS = 900.0
RUNNERS, SLOTS = 3, 8
_WORDS = (
    "oak",
    "pine",
    "steel",
    "brass",
    "chair",
    "table",
    "lamp",
    "shelf",
    "blue",
    "red",
    "old",
    "large",
    "café",
    "Ação",
    "日本",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    texts: int
    kills: int
    texts_per_task: int = 100
    honours_keys: bool = True

    @property
    def paid_again_at_most(self) -> int:
        """What the dead runners had in their hands, and answers that got lost without a kill: one
        for each kill, free with an honoured key."""
        calls = self.kills * (SLOTS if self.honours_keys else SLOTS + 1)
        return calls * self.texts_per_task

    @property
    def contents(self) -> int:
        return max(1, round(self.texts * (1 - REPEATED_SHARE)))

    def content(self, number: int) -> str:
        drawn = random.Random(f"{self.seed}/{number}")
        return " ".join([f"item {number}", *drawn.choices(_WORDS, k=drawn.randint(2, 8))])

    def lines(self) -> Iterator[str]:
        """Every content at least once, some again, in random order, with varied spaces."""
        drawn = random.Random(self.seed)
        numbers = [
            *range(self.contents),
            *drawn.choices(range(self.contents), k=self.texts - self.contents),
        ]
        drawn.shuffle(numbers)
        for number in numbers:
            yield self.content(number).replace(" ", drawn.choice((" ", "  ", "\t")))


@dataclass(frozen=True, slots=True)
class Outcome:
    seconds: float
    faults: list[str]
    figures: dict[str, int | float]


async def run(plan: Plan, database_url: str, say: Say) -> Outcome:
    async with (
        Sandbox(proxies=0, seed=plan.seed, standins=[OpenAiEmbeddings(plan.seed)]) as sandbox,
        Regente(database_url, components=["embeddings"]) as app,
    ):
        (provider,) = [one for one in sandbox.standins if isinstance(one, OpenAiEmbeddings)]
        provider.honours_keys = plan.honours_keys
        url = f"{sandbox.url}/openai/v1"
        settings = EmbeddingSettings(model=MODEL, base_url=url, texts_per_task=plan.texts_per_task)
        with runners(
            database_url, url, RUNNERS, REGENTE_EMBEDDINGS_CONCURRENCY=str(SLOTS)
        ) as fleet:
            began = time.monotonic()
            added = await EmbeddingOperations(app, settings).add(plan.lines(), batch="campaign")
            say(
                f"{added.texts:,} texts queued in {added.tasks:,} tasks after "
                f"{time.monotonic() - began:.1f} s"
            )
            struck = await _break_until_done(plan, app, fleet, provider, added.tasks, say)
            seconds = time.monotonic() - began
            said = fleet.said() if struck < plan.kills else ""
        batch = await app.batch(added.batch_id)
        faults = [] if struck == plan.kills else [f"only {struck} of {plan.kills} kills: {said}"]
        faults += (
            [] if batch.completed == added.tasks and batch.balanced else [f"the batch is {batch}"]
        )
    checked, figures = await asyncio.to_thread(check, plan, database_url, provider)
    figures |= {
        "tasks": added.tasks,
        "kills": struck,
        "seconds": round(seconds, 1),
        "texts_per_second": round(plan.texts / seconds),
    }
    return Outcome(seconds, [*faults, *checked], figures)


async def _break_until_done(
    plan: Plan, app: Regente, fleet: Runners, provider: OpenAiEmbeddings, tasks: int, say: Say
) -> int:
    """Kills come at drawn points of the work, so that runners are busy; the provider fails, too."""
    drawn = random.Random(plan.seed)
    points = sorted(drawn.randrange(1, max(2, round(tasks * 0.9))) for _ in range(plan.kills))
    struck, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        done = (await app.counts("embeddings"))["completed"]
        if struck < len(points) and done >= points[struck]:
            victim = drawn.randrange(RUNNERS)
            fleet.kill(victim)
            provider.break_with(drawn.choice([FaultKind.FAILING, FaultKind.LOST]), count=1)
            provider.break_with(FaultKind.THROTTLED, count=2, retry_after=0.2)
            struck += 1
            say(f"runner {victim} killed after {done:,} of {tasks:,} tasks")
        if done == tasks:
            return struck
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    say(fleet.said())
    return struck


def check(
    plan: Plan, database_url: str, provider: OpenAiEmbeddings
) -> tuple[list[str], dict[str, int | float]]:
    """One vector, the right one, for each drawn content; one completion for each task."""
    expected = {plan.content(number) for number in range(plan.contents)}
    faults: list[str] = []
    seen: set[str] = set()
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            "SELECT text, encode(content_hash, 'hex'), model, vector::real[] FROM "
            "regente.embeddings"
        )
        for text, digest, model, vector in found:
            if text in seen:
                faults.append(f"a second vector for {text!r}")
            seen.add(text)
            if digest != hashlib.sha256(f"{MODEL}\0{text}".encode()).hexdigest() or model != MODEL:
                faults.append(f"a wrong hash for {text!r}")
            right = provider.vector(text, DIMENSIONS)
            if len(vector) != DIMENSIONS or any(
                abs(a - b) > 1e-6 for a, b in zip(vector, right, strict=True)
            ):
                faults.append(f"a wrong vector for {text!r}")
        completions = connection.execute(
            "SELECT count(*), count(DISTINCT task_id) FROM regente.events WHERE event = "
            "'task_completed'"
        ).fetchone()
        attempts = connection.execute(
            "SELECT sum(attempt), sum(crashes) FROM regente.tasks"
        ).fetchone()
    assert completions is not None
    assert attempts is not None
    faults += [f"no vector for {text!r}" for text in expected - seen] + [
        f"an unasked vector for {text!r}" for text in seen - expected
    ]
    if completions[0] != completions[1]:
        faults.append(f"{completions[0]} completions of {completions[1]} tasks")
    repaid = provider.charged.total() - len(provider.charged)
    if repaid > plan.paid_again_at_most:
        faults.append(f"{repaid} texts were paid for again, at most {plan.paid_again_at_most} may")
    figures = {
        "texts": plan.texts,
        "contents": len(expected),
        "vectors": len(seen),
        "completions": completions[0],
        "attempts": int(attempts[0]),
        "crashes": int(attempts[1]),
        "calls": provider.calls["calls"],
        "repeated_calls": provider.calls["repeated"],
        "faulty_calls": provider.calls["faulty"],
        "paid_again": repaid,
        "most_for_one_text": max(provider.charged.values(), default=0),
    }
    return faults, {**figures}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.pipelines.embeddings.faults.campaign", description=__doc__
    )
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts-per-task", type=int, default=100)
    parser.add_argument(
        "--ignored-keys", action="store_true", help="the provider knows no idempotency keys"
    )
    options = parser.parse_args()
    plan = Plan(
        options.seed,
        options.texts,
        options.kills,
        options.texts_per_task,
        honours_keys=not options.ignored_keys,
    )
    say: Say = lambda line: print(line, flush=True)  # noqa: E731
    say(f"seed {plan.seed}: {plan.texts:,} texts, {plan.contents:,} contents, {plan.kills} kills")
    with tempfile.TemporaryDirectory(
        prefix="regente-embeddings-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the server of a root user runs as another one
        server = EmbeddedPostgres.acquire(Path(folder) / "data")
        try:
            outcome = asyncio.run(run(plan, server.url, say))
        finally:
            server.release()
    for name, value in outcome.figures.items():
        say(f"{name:>18}  {value:,}")
    for fault in outcome.faults[:20]:
        say(f"BROKEN: {fault}")
    say(
        "exactly one vector for each content"
        if not outcome.faults
        else f"{len(outcome.faults)} faults"
    )
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
