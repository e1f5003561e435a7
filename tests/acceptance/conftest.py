"""The command line of the tests: within this process, or as real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from regente import Fatal, Regente, Retry, Task, Transient
from regente.cli import main
from regente.engine.pipeline import Registry

PIPELINES = Path(__file__).with_name("shop.py")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one error of a command that was run with `--json`."""
        found: dict[str, dict[str, str]] = json.loads(self.err)
        return found["error"]

    @property
    def last_line(self) -> str:
        return self.out.strip().splitlines()[-1]


class Cli:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def __call__(self, *words: str) -> Answer:
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, words)
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    async def text(self, *words: str) -> str:
        """The output of a command that succeeds."""
        answer = await self(*words)
        assert answer.code == 0, answer
        return answer.out

    async def json(self, *words: str) -> Any:
        answer = await self(*words, "--json")
        assert answer.code == 0, answer
        return answer.data


@pytest.fixture
def cli(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plain_logs: None,
) -> Cli:
    """`regente …` on this test's database."""
    monkeypatch.setenv("REGENTE_DATABASE_URL", database_url)
    return Cli(capsys)


@pytest.fixture
def bare_cli(capsys: pytest.CaptureFixture[str], plain_logs: None) -> Cli:
    """`regente …` without a database."""
    return Cli(capsys)


@pytest.fixture
def plain_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undoes the logging and module path that the command line sets for this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


class CliProcess:
    """`python -m regente …` as a process, its output in files."""

    def __init__(self, folder: Path, environment: dict[str, str], *words: str) -> None:
        folder.mkdir()
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "regente", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def said(self, text: str) -> Callable[[], bool]:
        """Whether this text is in its output so far."""
        return lambda: text in self.err.read_text()

    def wait(self, within_seconds: float = 60.0) -> Answer:
        code = self._process.wait(within_seconds)
        return Answer(code, self.out.read_text(), self.err.read_text())

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Callable[..., CliProcess]]:
    """Starts `regente …` in an empty folder; every process is ended with the test."""
    started: list[CliProcess] = []

    def start_one(*words: str, **settings: str) -> CliProcess:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REGENTE_", "JOB_"))
        }
        environment = {**clean, "REGENTE_DATABASE_URL": database_url, **settings}
        started.append(CliProcess(tmp_path / f"process-{len(started)}", environment, *words))
        return started[-1]

    yield start_one
    for process in started:
        process.end()


@dataclass(frozen=True, slots=True)
class SampleTasks:
    """Tasks in every status."""

    app: Regente
    completed: int
    failed: int
    flaky: int
    queued: int
    draft: int


@pytest.fixture
async def sample(app: Regente, registry: Registry) -> SampleTasks:
    @registry.pipeline("pages", retry=Retry(max_attempts=2, first=0.0))
    async def pages(task: Task[Any]) -> dict[str, Any]:
        size = await task.step("MEASURE", len, task.args["url"])
        if task.args["url"] == "bad":
            task.snapshot("page.html", "<html>\x1b[31mbad</html>")
            raise Fatal("the layout [red]changed[/red]\x1b[31m", code="LAYOUT")
        if task.args["url"] == "flaky":
            raise Transient("no answer", code="HTTP_503")
        return {"size": size}

    completed = await app.enqueue("pages", {"url": "good"}, key="good", batch="monday")
    failed = await app.enqueue("pages", {"url": "bad"}, batch="monday")
    flaky = await app.enqueue("pages", {"url": "flaky"}, batch="monday")
    await app.run(until_idle=True)
    queued = await app.enqueue("pages", {"url": "later"}, priority=3)
    draft = await app.enqueue("pages", {"url": "some day"}, draft=True)
    return SampleTasks(app, completed, failed, flaky, queued, draft)
