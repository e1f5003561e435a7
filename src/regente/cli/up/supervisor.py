"""Processes of ours, started, watched, replaced when they fall, ended at the end.

Each holds the other end of a pipe of ours as its leash: should this process die without a word,
they end, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from regente.cli.parent_watch import VARIABLE
from regente.engine.errors import RegenteError

START_SECONDS = 60.0
PATIENCE_SECONDS = (8.0, 5.0)  # after the first and after the second SIGTERM
MAX_FALLS = 10


class ServiceFailed(RegenteError):
    code = "SERVICE_FAILED"


@dataclass(slots=True)
class SupervisedProcess:
    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    speaks: bool  # its first line says where it is
    process: Process
    address: dict[str, Any]
    falls: int = 0


class Supervisor:
    def __init__(self, logs: Path, environment: dict[str, str]) -> None:
        self.logs = logs
        self._environment = {**os.environ, **environment, VARIABLE: "1"}
        self._services: dict[str, SupervisedProcess] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.end()

    async def start(
        self,
        name: str,
        words: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        speaks: bool = True,
    ) -> dict[str, Any]:
        """`regente <words>` as a process; returns what it says about itself, when it is one that
        speaks."""
        surroundings = {**self._environment, **(environment or {})}
        process = await self._spawn(name, words, surroundings)
        service = SupervisedProcess(name, tuple(words), surroundings, speaks, process, {})
        self._services[name] = service
        if speaks:
            service.address = await self._first_words(service)
        return service.address

    def tell(self, environment: dict[str, str]) -> None:
        """What those that start from now on know, too."""
        self._environment |= environment

    async def kill(self, name: str) -> None:
        """SIGKILL: no cleanup runs. Returns when it is dead; it is not replaced."""
        service = self._services.pop(name)
        service.process.kill()
        await service.process.wait()

    @property
    def names(self) -> list[str]:
        return list(self._services)

    async def replace_fallen(self) -> list[str]:
        """What ended on its own is started again, at its old address; returns the names."""
        fallen = [
            service for service in self._services.values() if service.process.returncode is not None
        ]
        for service in fallen:
            service.falls += 1
            if service.falls > MAX_FALLS:
                raise ServiceFailed(
                    f"{service.name} ended {service.falls} times, last with: "
                    f"{self._last_words(service.name)}"
                )
            service.process = await self._spawn(
                service.name, _at_its_old_port(service), service.environment
            )
            if service.speaks:
                await self._first_words(service)
        return [service.name for service in fallen]

    async def end(self) -> None:
        """Ask twice, then insist. None is left when this returns."""
        for patience_seconds in PATIENCE_SECONDS:
            self._signal(signal.SIGTERM)
            if await self._all_ended(patience_seconds):
                break
        self._signal(signal.SIGKILL)
        await self._all_ended(None)
        self._services.clear()

    async def _spawn(self, name: str, words: Sequence[str], environment: dict[str, str]) -> Process:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "regente",
                *words,
                "--json",
                "--log-format",
                "json",
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    async def _first_words(self, service: SupervisedProcess) -> dict[str, Any]:
        assert service.process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await service.process.stdout.readline()
            return dict(json.loads(line))
        except (TimeoutError, ValueError):
            raise ServiceFailed(
                f"{service.name} did not start: {self._last_words(service.name)}"
            ) from None

    def _last_words(self, name: str) -> str:
        lines = (self.logs / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:500] if lines else "it said nothing"

    def _signal(self, number: signal.Signals) -> None:
        for service in self._services.values():
            if service.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    service.process.send_signal(number)

    async def _all_ended(self, within_seconds: float | None) -> bool:
        waits = [service.process.wait() for service in self._services.values()]
        try:
            await asyncio.wait_for(asyncio.gather(*waits), within_seconds)
        except TimeoutError:
            return False
        return True


def _at_its_old_port(service: SupervisedProcess) -> tuple[str, ...]:
    """Others know where it was."""
    url = service.address.get("url")
    if url is None or "--port" not in service.words:
        return service.words
    place = service.words.index("--port") + 1
    return (*service.words[:place], str(urlsplit(url).port), *service.words[place + 1 :])
