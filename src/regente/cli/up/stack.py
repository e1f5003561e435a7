"""Starts the processes of the local stack and registers its workers, proxies and writers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regente.app import Regente
from regente.asgi.sockets import bind
from regente.cli.up.supervisor import Supervisor
from regente.engine.errors import InvalidInput
from regente.fleet.models import Kind

BY = "up"
RUNNER_PREFIX = "runner-"


@dataclass(frozen=True, slots=True)
class LocalStack:
    app: Regente
    processes: Supervisor
    data_dir: Path

    async def start_runner(self, number: int) -> None:
        name = f"{RUNNER_PREFIX}{number}"
        await self.processes.start(name, ("run", "--name", name), announces=False)

    async def start_console(self, port: int) -> str:
        """Start the HTTP API with the console, on a free port if `port` is in use.

        Returns the sign-in link.
        """
        words = ("serve", "--port", str(port if is_free(port) else 0), "--sign-in")
        announced = await self.processes.start("console", words)
        return str(announced["sign_in"])

    async def start_writer(self, name: str) -> None:
        key = secrets.token_urlsafe(24)
        environment = {
            "REGENTE_WRITER_API_KEY": key,
            "REGENTE_WRITER_DATABASE_URL": self.app.database_url,
        }
        words = ("writer", "--port", "0", "--allow-private", "--create-ads")
        announced = await self.processes.start(name, words, environment=environment)
        await self._register("writer", name, {"url": announced["url"], "api_key": key})

    async def start_sandbox(self, proxies: int, seed: int, ads_per_cell: int) -> str:
        """Start a sandbox and register its proxies. Returns the URL of its ad library."""
        options = {"port": 0, "proxies": proxies, "seed": seed, "ads-per-cell": ads_per_cell}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        announced = await self.processes.start("sandbox", ["sandbox", *words])
        library_url = str(announced["library_url"])
        self.processes.add_environment({"REGENTE_SANDBOX_URL": library_url})
        for proxy in announced["proxies"]:
            fields = {name: proxy[name] for name in ("host", "port", "username", "password")}
            await self._register("proxy", f"demo-{proxy['name']}", fields)
        return library_url

    async def start_worker(self, name: str, target: str, environment: dict[str, str]) -> None:
        key = secrets.token_urlsafe(24)
        folder = self.data_dir / name
        words = ("worker", "--port", "0", "--data-dir", str(folder), "--target", target)
        announced = await self.processes.start(
            name, words, environment={**environment, "REGENTE_WORKER_API_KEY": key}
        )
        fields = {name: announced[name] for name in ("url", "storage_domain")}
        await self._register("worker", name, {**fields, "api_key": key})

    async def _register(self, kind: Kind, name: str, fields: dict[str, Any]) -> None:
        """Add the member, or change the one with this name; activate it."""
        fleet = self.app.fleet
        known = {member.name: member.id for member in await fleet.members(kind)}
        if name in known:
            await fleet.edit(kind, known[name], fields, by=BY)
            await fleet.set_active(kind, known[name], True, by=BY)
            return
        match kind:
            case "worker":
                await fleet.add_worker(
                    name, fields["url"], fields["api_key"], fields["storage_domain"], by=BY
                )
            case "proxy":
                await fleet.add_proxy(
                    name,
                    fields["host"],
                    fields["port"],
                    fields["username"],
                    fields["password"],
                    by=BY,
                )
            case "writer":
                await fleet.add_writer(name, fields["url"], fields["api_key"], by=BY)
            case _:
                raise InvalidInput(f"unknown kind of member: {kind}")


def is_free(port: int) -> bool:
    try:
        bind("127.0.0.1", port).close()
    except OSError:
        return False
    return True
