"""`regente run --pipelines embeddings` as processes that tests kill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.runner_process import SHORT_CONFIG

ROOT = Path(__file__).parents[3]


class Runners:
    """So many runners on one database, each restarted when it is killed."""

    def __init__(
        self, database_url: str, provider_url: str, count: int, **environment: str
    ) -> None:
        own = {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_EMBEDDINGS_BASE_URL": provider_url,
            "REGENTE_EMBEDDINGS_API_KEY": "sk-test",
            "JOB_LOCK_TTL_MS": "4000",
            "REGENTE_MAX_CRASHES": "1000",
        }
        self._environment = {**os.environ, **SHORT_CONFIG, **own, **environment}
        self.log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed by `close`
        self._count = count
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.processes = [self._started() for _ in range(self._count)]

    def kill(self, number: int, *, restart: bool = True) -> None:
        self.processes[number].kill()
        self.processes[number].wait()
        if restart:
            self.processes[number] = self._started()

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-20_000:]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.log.close()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "regente",
            "run",
            "--pipelines",
            "embeddings",
            "--concurrency",
            "8",
        ]
        return subprocess.Popen(
            command, cwd=ROOT, env=self._environment, stdout=self.log, stderr=self.log
        )


@contextlib.contextmanager
def runners(
    database_url: str, provider_url: str, count: int = 3, **environment: str
) -> Iterator[Runners]:
    found = Runners(database_url, provider_url, count, **environment)
    found.start()
    try:
        yield found
    finally:
        found.close()
