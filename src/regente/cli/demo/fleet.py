"""The demo's runner processes: started, one of them killed on purpose, all of them ended at the end.

Each holds the other end of a pipe of ours as its leash: should this process die without a word, they drain and end, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Self

from regente.engine.errors import RegenteError
from regente.settings import Settings

MODULE = "regente.examples.prices"
PIPELINE = "demo_prices"
CONCURRENCY = 8
LEASE_SECONDS = 3
PATIENCE_SECONDS = (8.0, 5.0)  # after the first and after the second SIGTERM
MAX_REPLACEMENTS = 10


class DemoFailed(RegenteError):
    code = "DEMO_FAILED"


class Fleet:
    def __init__(self, size: int, settings: Settings, logs: Path) -> None:
        self._size = size
        self._logs = logs
        self._environment = _environment(settings)
        self._started = 0
        self._running: dict[int, tuple[int, Process]] = {}

    async def __aenter__(self) -> Self:
        try:
            for _ in range(self._size):
                await self.start_one()
        except BaseException:
            await self.end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    @property
    def pids(self) -> list[int]:
        return list(self._running)

    def number_of(self, pid: int) -> int:
        return self._running[pid][0]

    async def start_one(self) -> int:
        """Returns the new runner's number."""
        self._started += 1
        words = (
            "run", "--import", MODULE, "--pipelines", PIPELINE, "--concurrency", str(CONCURRENCY), "--name",
            f"demo-{os.getpid()}-{self._started}", "--log-format", "json", "--leash",
        )  # fmt: skip
        with self._log_of(self._started).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "regente", *words,
                stdin=PIPE, stdout=DEVNULL, stderr=log, env=self._environment, start_new_session=True,
            )  # fmt: skip
        self._running[process.pid] = (self._started, process)
        return self._started

    async def kill(self, pid: int) -> None:
        """SIGKILL: no cleanup runs. Returns when it is dead."""
        _, process = self._running.pop(pid)
        process.kill()
        await process.wait()

    async def replace_fallen(self) -> list[tuple[int, int]]:
        """Runners that ended on their own are replaced: (number of the old, number of the new)."""
        fallen = [(pid, number) for pid, (number, process) in self._running.items() if process.returncode is not None]
        replaced = []
        for pid, number in fallen:
            code = self._running.pop(pid)[1].returncode
            if self._started >= self._size + MAX_REPLACEMENTS:
                raise DemoFailed(f"runner {number} ended with {code}, and so did those before it: {self._last_words(number)}")
            replaced.append((number, await self.start_one()))
        return replaced

    async def end(self) -> None:
        """Ask twice, then insist. None is left when this returns."""
        for patience_seconds in PATIENCE_SECONDS:
            self._signal(signal.SIGTERM)
            if await self._all_ended(patience_seconds):
                break
        self._signal(signal.SIGKILL)
        await self._all_ended(None)
        self._running.clear()

    def _signal(self, number: signal.Signals) -> None:
        for _, process in self._running.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

    async def _all_ended(self, within_seconds: float | None) -> bool:
        waits = [process.wait() for _, process in self._running.values()]
        try:
            await asyncio.wait_for(asyncio.gather(*waits), within_seconds)
        except TimeoutError:
            return False
        return True

    def _log_of(self, number: int) -> Path:
        return self._logs / f"runner-{number}.log"

    def _last_words(self, number: int) -> str:
        lines = self._log_of(number).read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _environment(settings: Settings) -> dict[str, str]:
    """A short lease, so that recovery can be watched. The address goes by environment: arguments are seen by everybody."""
    lease = {
        "REGENTE_LOCK_TTL_MS": str(LEASE_SECONDS * 1000), "REGENTE_HEARTBEAT_INTERVAL_MS": "500", "REGENTE_SWEEP_SECONDS": "1",
        "REGENTE_BATCHES_SECONDS": "1", "REGENTE_DRAIN_SECONDS": "3", "REGENTE_LOG_LEVEL": "info",
    }  # fmt: skip
    address = {"REGENTE_DATABASE_URL": settings.database_url or ""}
    return {**os.environ, **lease, **address}
