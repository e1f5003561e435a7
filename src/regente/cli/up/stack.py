"""The processes of one machine, put together: orchestrators, a writer, and for the demo a sandbox
and workers."""

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


@dataclass(frozen=True, slots=True)
class LocalStack:
    app: Regente
    processes: Supervisor
    data_dir: Path

    async def orchestrator(self, number: int) -> str:
        name = f"orchestrator-{number}"
        await self.processes.start(name, ("run", "--name", name), speaks=False)
        return name

    async def console(self, port: int) -> str:
        """The HTTP API with the console; where to sign in. A port that is taken already is changed
        for a free one."""
        words = ("serve", "--port", str(port if is_free(port) else 0), "--sign-in")
        told = await self.processes.start("console", words)
        return str(told["sign_in"])

    async def writer(self, name: str) -> str:
        key = secrets.token_urlsafe(24)
        environment = {
            "REGENTE_WRITER_API_KEY": key,
            "REGENTE_WRITER_DATABASE_URL": self.app.database_url,
        }
        told = await self.processes.start(
            name,
            ("writer", "--port", "0", "--allow-private", "--create-ads"),
            environment=environment,
        )
        await self._enlist("writer", name, {"url": told["url"], "api_key": key})
        return str(told["url"])

    async def sandbox(self, proxies: int, seed: int, ads_per_cell: int) -> dict[str, Any]:
        words = (
            "sandbox",
            "--port",
            "0",
            "--proxies",
            str(proxies),
            "--seed",
            str(seed),
            "--ads-per-cell",
            str(ads_per_cell),
        )
        told = await self.processes.start("sandbox", words)
        self.processes.tell({"REGENTE_SANDBOX_URL": told["library_url"]})
        for proxy in told["proxies"]:
            fields = {name: proxy[name] for name in ("host", "port", "username", "password")}
            await self._enlist("proxy", f"demo-{proxy['name']}", fields)
        return told

    async def worker(self, name: str, target: str, environment: dict[str, str]) -> str:
        key = secrets.token_urlsafe(24)
        folder = self.data_dir / name
        words = ("worker", "--port", "0", "--data-dir", str(folder), "--target", target)
        told = await self.processes.start(
            name, words, environment={**environment, "REGENTE_WORKER_API_KEY": key}
        )
        fields = {"url": told["url"], "api_key": key, "storage_domain": told["storage_domain"]}
        await self._enlist("worker", name, fields)
        return str(told["url"])

    async def _enlist(self, kind: Kind, name: str, fields: dict[str, Any]) -> None:
        """New, or, from an earlier time, changed to where it is now; active in any case."""
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
                raise InvalidInput(f"there is no such member: {kind}")


def is_free(port: int) -> bool:
    try:
        bind("127.0.0.1", port).close()
    except OSError:
        return False
    return True
