"""An execution with every bad document: `python -m tests.pipelines.documents.faults.campaign
--documents 2000`.

It stalls before it begins, three resume it at once, a runner is killed in its midst, and another
one ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.read_models import DocumentExecution
from regente.pipelines.documents.standins.openrouter import OpenRouter
from regente.postgres.embedded import EmbeddedPostgres
from regente.services.sandbox.sandbox import Sandbox
from regente.settings import Settings
from tests.pipelines.documents.environment import Environment, stalled
from tests.pipelines.documents.faults.checker import faults, summary
from tests.pipelines.documents.faults.plan import Planned, arm, plan
from tests.pipelines.documents.faults.runner import DocumentRunner


@dataclass(frozen=True, slots=True)
class Outcome:
    execution: DocumentExecution
    faults: list[str]
    winners: int
    runner_status: int
    submit_seconds: float
    run_seconds: float
    calls: dict[str, int]


async def run_campaign(
    url: str,
    folder: Path,
    planned: list[Planned],
    *,
    skip_waits: bool,
    kill: bool,
    wait_seconds: float,
) -> Outcome:
    async with (
        Sandbox(proxies=0, standins=[OpenRouter(1)]) as sandbox,
        Regente(url, settings=_quick(), pipelines=Registry(), components=["documents"]) as app,
    ):
        chat = next(one for one in sandbox.standins if isinstance(one, OpenRouter))
        arm(chat, throttles=max(3, len(planned) // 100))
        env = Environment(app, DocumentOperations(app), folder / "files")
        for one in planned:
            env.write(one.code, one.content)
        started = time.monotonic()
        execution_id = await env.submit(name="campaign")
        submitted = time.monotonic()
        await stalled(env, app.registry, execution_id)
        answers = await asyncio.gather(*(env.operations.resume(execution_id) for _ in range(3)))
        began = time.monotonic()
        execution, status = await _run(
            env, execution_id, url, sandbox.url, folder, skip_waits, kill, wait_seconds
        )
        ended = time.monotonic()
        wrong = await asyncio.to_thread(faults, url, execution_id, planned, chat)
        winners = sum(one.resumed for one in answers)
        return Outcome(
            execution, wrong, winners, status, submitted - started, ended - began, dict(chat.calls)
        )


async def _run(
    env: Environment,
    execution_id: int,
    url: str,
    sandbox_url: str,
    folder: Path,
    skip_waits: bool,
    kill: bool,
    wait_seconds: float,
) -> tuple[DocumentExecution, int]:
    if kill:
        with DocumentRunner(url, sandbox_url, folder / "killed.log") as victim:
            await env.until(
                lambda one: one.progresso_pct >= 20, execution_id, within_seconds=wait_seconds
            )
            assert victim.lives, "a document took its runner down"
    with DocumentRunner(url, sandbox_url, folder / "runner.log") as runner:
        execution = await env.ended(
            execution_id, within_seconds=wait_seconds, skip_waits=skip_waits
        )
        assert runner.lives, "a document took its runner down"
        return execution, runner.stop()


def _quick() -> Settings:
    return Settings(sweep_seconds=0.5, batches_seconds=0.2, drain_seconds=5.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    planned = plan(given.documents, given.seed)
    print(f"seed {given.seed}: {len(planned):,} documents, expected {summary(planned)}", flush=True)
    with tempfile.TemporaryDirectory(
        prefix="regente-documents-", ignore_cleanup_errors=True
    ) as name:
        os.chmod(name, 0o755)  # the server of a root user runs as another one
        server = EmbeddedPostgres.acquire(Path(name) / "data")
        work = run_campaign(
            server.url,
            Path(name),
            planned,
            skip_waits=False,
            kill=True,
            wait_seconds=60 * given.minutes,
        )
        found = asyncio.run(work)
        server.release()
    counts = {state: count for state, count in found.execution.documentos if count}
    print(
        f"{found.execution.status}: {counts}; submitted in {found.submit_seconds:.1f} s, "
        f"ran {found.run_seconds:.1f} s"
    )
    print(
        f"chat API: {found.calls}; resumes that won: {found.winners} of 3; the last runner "
        f"ended with {found.runner_status}"
    )
    for fault in found.faults[:50]:
        print(f"WRONG: {fault}")
    right = not found.faults and found.winners == 1 and found.runner_status == 0
    print("everything is as planned" if right else f"{len(found.faults)} faults")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
