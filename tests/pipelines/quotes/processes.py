"""`regente run --pipelines quotes` as a process of its own, for tests that end it in every way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.audit import audit
from tests.support.runner_process import ROOT

QUICKLY = {
    "JOB_LOCK_TTL_MS": "30000", "JOB_HEARTBEAT_INTERVAL_MS": "200", "REGENTE_SWEEP_SECONDS": "0.2",
    "REGENTE_DRAIN_SECONDS": "10", "REGENTE_QUOTES_RETRY_SECONDS": "0.01", "REGENTE_MAX_CRASHES": "50",
    "REGENTE_DATABASE_POOL_SIZE": "4",
}  # fmt: skip


class QuoteRunner:
    """Started, signalled and awaited; never left behind."""

    def __init__(
        self,
        database_url: str,
        sandbox_url: str,
        folder: Path,
        *,
        concurrency: int = 20,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed by `close`
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("REGENTE_", "JOB_"))}
        given = {"REGENTE_DATABASE_URL": database_url, "REGENTE_SANDBOX_URL": sandbox_url, "REGENTE_DATA_DIR": str(folder)}
        words = ["run", "--pipelines", "quotes", "--concurrency", str(concurrency)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "regente", *words], cwd=ROOT, env={**clean, **QUICKLY, **given, **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait(self, within_seconds: float = 40.0) -> int:
        try:
            return self._process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the runner did not end within {within_seconds} s; it said:\n{self.said()}") from None

    def send(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(sign)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-20_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        self.log.close()


def expire_leases(database_url: str) -> None:
    """Time is moved, not waited for."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second' WHERE status < 'stopped'"
        )


def audited(database_url: str) -> list[Any]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        return list(audit(connection))
