"""A runner of documents whose extractor crashes on marked files.

The database, the sandbox and the limits come from the environment, as for `regente run`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import register_documents
from tests.pipelines.documents.faults.extractors import fragile

ROOT = Path(__file__).parents[4]
CONFIG = {
    "JOB_LOCK_TTL_MS": "4000",
    "JOB_HEARTBEAT_INTERVAL_MS": "500",
    "REGENTE_SWEEP_SECONDS": "0.5",
    "REGENTE_BATCHES_SECONDS": "0.5",
    "REGENTE_DRAIN_SECONDS": "30",
    "REGENTE_DOCUMENTS_MAX_FILE_MB": "1",
    "REGENTE_DOCUMENTS_EXTRACT_SECONDS": "10",
    "REGENTE_DOCUMENTS_EXTRACT_MEMORY_MB": "512",
}


class DocumentRunner:
    """A context manager; the process ends with the block."""

    def __init__(self, database_url: str, sandbox_url: str, log: Path) -> None:
        self._log = log.open("ab")
        env = {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_SANDBOX_URL": sandbox_url,
            **CONFIG,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipelines.documents.faults.runner"],
            cwd=ROOT,
            env=_without_keys() | env,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Its exit code, after its running tasks have ended."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.lives:
            self.kill()
        self._log.close()


def _without_keys() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}


async def run() -> None:
    logging.basicConfig(level=logging.INFO)
    async with Regente(pipelines=Registry()) as app:
        registered = register_documents(
            app.registry,
            app,
            DocumentSettings(),
            os.environ["REGENTE_SANDBOX_URL"],
            extract=fragile,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop_running)
        await app.run()
        await registered.close()


if __name__ == "__main__":
    asyncio.run(run())
