"""A runner in its own process, to be killed: `python -m tests.support.runner_process MODULE`.

MODULE defines the pipelines; the database and the terms of the lease come from the environment, as
for `regente run`. SIGTERM drains, a second one hands back at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import importlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from regente import Regente
from tests.support.current_app import set_application

ROOT = Path(__file__).parents[2]
SHORT_CONFIG = {
    "JOB_LOCK_TTL_MS": "30000",
    "JOB_HEARTBEAT_INTERVAL_MS": "100",
    "REGENTE_SWEEP_SECONDS": "0.1",
    "REGENTE_BATCHES_SECONDS": "0.1",
    "REGENTE_SCHEDULES_SECONDS": "0.1",
    "REGENTE_DRAIN_SECONDS": "0.2",
    "REGENTE_CONCURRENCY": "10",
    "REGENTE_DATABASE_POOL_SIZE": "4",
}


class LoggedProcess:
    """A process that is started, signalled and awaited, and always ended."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; −9 when it was killed."""
        return self._process.poll()

    def wait(self, within_seconds: float = 30.0) -> int:
        try:
            return self._process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self.explain()
            raise AssertionError(
                f"the runner did not end within {within_seconds} s; it said:\n{self.said()}"
            ) from None

    def send(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(sign)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()

    def explain(self) -> None:
        """Called when the process does not end in time: adds what it can to the log."""

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-20_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.kill()
        self.log.close()


class RunnerProcess(LoggedProcess):
    """One runner with the pipelines of a module."""

    def __init__(self, database_url: str, module: str, environment: Mapping[str, str]) -> None:
        given = os.environ | SHORT_CONFIG | {"REGENTE_DATABASE_URL": database_url, **environment}
        super().__init__(["tests.support.runner_process", module], given)

    def explain(self) -> None:
        """Where every coroutine and thread stands."""
        self.send(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)


async def run(module: str) -> None:
    importlib.import_module(module)
    loop = asyncio.get_running_loop()
    async with Regente() as app:
        set_application(app)
        loop.add_signal_handler(signal.SIGTERM, app.stop_running)
        loop.add_signal_handler(signal.SIGUSR1, show_stacks)
        report = await app.run(until_idle=os.environ.get("RUN_UNTIL_IDLE") == "1")
        sys.stdout.write(f"drained: {report}\n")


def show_stacks() -> None:
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    faulthandler.dump_traceback()


def main() -> None:
    import uvloop

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("regente").addFilter(
        lambda record: not record.getMessage().startswith("task ")
    )
    uvloop.run(run(sys.argv[1]))


if __name__ == "__main__":
    main()
