"""Starts `regente` processes, restarts those that exit, and stops all at the end.

The stdin of each is a pipe from this process: when this process dies, they end, too.
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
STOP_SECONDS = (8.0, 5.0)  # after the first and after the second SIGTERM
MAX_RESTARTS = 10


class ServiceFailed(RegenteError):
    code = "SERVICE_FAILED"


@dataclass(slots=True)
class SupervisedProcess:
    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    announces: bool  # its first line of output is a JSON object with its address
    process: Process
    announced: dict[str, Any]
    restarts: int = 0


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
        await self.stop()

    async def start(
        self,
        name: str,
        words: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        announces: bool = True,
    ) -> dict[str, Any]:
        """Start `regente <words>`. Returns the object that it announces, or an empty one."""
        variables = {**self._environment, **(environment or {})}
        process = await self._spawn(name, words, variables)
        service = SupervisedProcess(name, tuple(words), variables, announces, process, {})
        self._services[name] = service
        if announces:
            service.announced = await self._announcement(service)
        return service.announced

    def add_environment(self, environment: dict[str, str]) -> None:
        """Add variables to the environment of the processes that start from now on."""
        self._environment |= environment

    async def kill(self, name: str) -> None:
        """Send SIGKILL and wait for the process to end. It is not restarted."""
        service = self._services.pop(name)
        service.process.kill()
        await service.process.wait()

    @property
    def names(self) -> list[str]:
        return list(self._services)

    async def restart_exited(self) -> list[str]:
        """Restart the processes that have exited, at their old ports. Returns their names."""
        exited = [
            service for service in self._services.values() if service.process.returncode is not None
        ]
        for service in exited:
            service.restarts += 1
            if service.restarts > MAX_RESTARTS:
                raise ServiceFailed(
                    f"{service.name} exited {service.restarts} times; "
                    f"its last log line: {self._last_log_line(service.name)}"
                )
            service.process = await self._spawn(
                service.name, _with_old_port(service), service.environment
            )
            if service.announces:
                await self._announcement(service)
        return [service.name for service in exited]

    async def stop(self) -> None:
        """Send SIGTERM twice, then SIGKILL. All processes have ended when this returns."""
        for seconds in STOP_SECONDS:
            self._signal(signal.SIGTERM)
            if await self._all_ended(seconds):
                break
        self._signal(signal.SIGKILL)
        await self._all_ended(None)
        self._services.clear()

    async def _spawn(self, name: str, words: Sequence[str], environment: dict[str, str]) -> Process:
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
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

    async def _announcement(self, service: SupervisedProcess) -> dict[str, Any]:
        assert service.process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await service.process.stdout.readline()
            return dict(json.loads(line))
        except (TimeoutError, ValueError):
            raise ServiceFailed(
                f"{service.name} did not start: {self._last_log_line(service.name)}"
            ) from None

    def _last_log_line(self, name: str) -> str:
        lines = (self.logs / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:500] if lines else "(empty log)"

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


def _with_old_port(service: SupervisedProcess) -> tuple[str, ...]:
    """The command line with the port of the first start, which clients know."""
    url = service.announced.get("url")
    if url is None or "--port" not in service.words:
        return service.words
    place = service.words.index("--port") + 1
    return (*service.words[:place], str(urlsplit(url).port), *service.words[place + 1 :])
