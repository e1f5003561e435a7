"""`regente run --pipelines rounds,matches` as processes to kill, forked from a warm one.

The forked child reads the crash point from its own environment, like a fresh one would; only the
import of the code is shared.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import uvloop

from regente.cli import main
from regente.engine import crashpoints
from regente.http_client.client import HttpClient
from tests.support.eventually import eventually

WARM = (
    uvloop,
    HttpClient(),
)  # what they import, or read, when they are first used is there before the fork
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])

CONFIG = {
    "JOB_LOCK_TTL_MS": "30000",
    "JOB_HEARTBEAT_INTERVAL_MS": "100",
    "REGENTE_SWEEP_SECONDS": "0.1",
    "REGENTE_BATCHES_SECONDS": "0.1",
    "REGENTE_SCHEDULES_SECONDS": "1",
    "REGENTE_DRAIN_SECONDS": "0.2",
    "REGENTE_MAX_CRASHES": "1000",
    "REGENTE_DATABASE_POOL_SIZE": "4",
    "REGENTE_ROUNDS_PAUSE_SECONDS": "0",
    "REGENTE_ROUNDS_PAGE_SECONDS": "5",
    "REGENTE_ROUNDS_RETRY_FIRST_SECONDS": "0.02",
    "REGENTE_ROUNDS_RETRY_MOST_SECONDS": "0.1",
    "REGENTE_ROUNDS_RECHECK_SECONDS": "0.05",
    "REGENTE_ROUNDS_MATCH_SECONDS": "0",
}


def be_a_runner(environment: Mapping[str, str], log: str) -> None:
    os.environ.update(environment)
    importlib.reload(crashpoints)
    with open(log, "ab") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.exit(
        main(
            ["run", "--pipelines", "rounds,matches", "--log-format", "json", "--concurrency", "20"]
        )
    )


class ForkedRunner:
    def __init__(self, process: ForkServerProcess, log: Path) -> None:
        self._process = process
        self.log = log

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def kill(self, sign: signal.Signals = signal.SIGKILL) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, sign)

    def killed(self, within_seconds: float = 30.0) -> None:
        """Waits until it died by SIGKILL; fails the test when it did not."""
        self._process.join(within_seconds)
        assert self._process.exitcode == -signal.SIGKILL, (
            f"{self._process.exitcode}: {self.log.read_text()[-5000:]}"
        )

    def started(self) -> None:
        eventually(
            lambda: self.log.exists() and "runner started" in self.log.read_text(),
            within_seconds=30,
        )


@contextmanager
def forked_runner(
    database_url: str, sandbox_url: str, log: Path, **environment: str
) -> Iterator[ForkedRunner]:
    """A forked runner, which is killed at the end of the block."""
    env = {
        **CONFIG,
        "REGENTE_DATABASE_URL": database_url,
        "REGENTE_SANDBOX_URL": sandbox_url,
        **environment,
    }
    process = PROCESSES.Process(target=be_a_runner, args=(env, str(log)))
    process.start()
    try:
        yield ForkedRunner(process, log)
    finally:
        process.kill()
        process.join()
