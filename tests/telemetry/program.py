"""A runner as a separate process: `python -m tests.telemetry.program DATABASE_URL PEER_URL`.

It prints the libraries that it loaded. The first attempt at a task fails and ends the process;
another process continues.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic import BaseModel

from regente import Regente, Task, Transient
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.http_client.client import HttpClient


class Anything(BaseModel):
    pass


async def main(database_url: str, peer_url: str) -> None:
    registry = Registry()
    http = HttpClient(5.0)
    app = Regente(database_url, pipelines=registry)

    async def fetch() -> None:
        await http.call("GET", f"{peer_url}/ads?token=canary", api_key="canary", answer=Anything)

    @registry.pipeline("traced", retry=Retry(max_attempts=3, first=0.01))
    async def traced(task: Task[dict[str, Any]]) -> None:
        if task.attempt == 1:
            app.stop_running()
            raise Transient("the canary must not be told", code="FIRST_TRY")
        await task.step("FETCH", fetch)

    async with app:
        await app.run(until_idle=True)
    await http.close()
    print("traced" if "opentelemetry" in sys.modules else "untraced")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
