"""Runner processes for tests that kill them, forked: `python -m
tests.pipelines.missions.faults.runner_processes`.

The fork server imports everything once and forks a process for each one that is asked for, so that
dozens of restarts stay affordable. It reads requests from its standard input, one JSON object a
line, and ends them all when that is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from regente import Regente
from regente.engine import crashpoints
from regente.engine.pipeline import Registry
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[4]


class RunnerProcess:
    """A process that opens the database, conducts missions and runs; ended by its fork server."""

    def __init__(self, forkserver: ForkServer, pid: int, log: Path) -> None:
        self._forkserver = forkserver
        self._log = log
        self.pid = pid
        self.exit_code: int | None = None
        self._asking = threading.Lock()

    def ended(self) -> bool:
        with self._asking:
            if self.exit_code is None:
                self.exit_code = self._forkserver.ask({"ended": self.pid})
        return self.exit_code is not None

    def wait(self, within_seconds: float = 30.0) -> int:
        try:
            eventually(self.ended, within_seconds=within_seconds)
        except AssertionError:
            raise AssertionError(
                f"the runner did not end within {within_seconds} s; it said:\n{self.said()}"
            ) from None
        assert self.exit_code is not None
        return self.exit_code

    def send(self, sign: signal.Signals) -> None:
        if not self.ended():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sign)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def started(self) -> bool:
        """Whether it runs; before that it ignores SIGTERM."""
        return "runner started" in self._log.read_text(errors="replace")

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-20_000:]


class ForkServer:
    """The tests' side of the fork server."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="regente-forkserver-")
        self._lock = threading.Lock()
        self._started = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, database_url: str, env: Mapping[str, str]) -> RunnerProcess:
        self._started += 1
        log = Path(self._folder.name, f"{self._started}.log")
        pid = self.ask({"start": {"REGENTE_DATABASE_URL": database_url, **env}, "log": str(log)})
        return RunnerProcess(self, pid, log)

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
        self._folder.cleanup()


# The fork server's own side.


async def conduct() -> None:
    loop = asyncio.get_running_loop()
    async with Regente(pipelines=Registry()) as app:
        app.conduct_missions()
        loop.add_signal_handler(signal.SIGTERM, app.stop_running)
        report = await app.run()
        sys.stdout.write(f"drained: {report}\n")


def become_runner(env: dict[str, str], log: str) -> NoReturn:
    """In the child: sets log and environment, then runs as if started by itself."""
    code = 1
    try:
        with open(os.devnull) as nothing, open(log, "w") as file:
            os.dup2(nothing.fileno(), 0)
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        os.environ.update(env)
        importlib.reload(crashpoints)  # it reads the environment once
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
        )
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each call hides the rest
        uvloop.run(conduct())
        code = 0
    except BaseException:
        logging.exception("the runner failed")
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the tests; they close the fork server
    living: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if "start" in request:
            answer = os.fork()
            if answer == 0:
                become_runner(request["start"], request["log"])
            living.add(answer)
        else:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            living.discard(pid)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
