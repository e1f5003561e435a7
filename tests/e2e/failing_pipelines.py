"""Pipelines that fail: quotes that stall on a route, dead letters with hostile snapshots, and
payments of unknown outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import BaseModel

from regente import Fatal, Retry, Task, UnknownOutcome
from regente.app import Regente
from regente.engine.pipeline import Registry
from regente.settings import Settings

HOSTILE_PAGE = """<html><head><title>captured</title>
<meta http-equiv="refresh" content="0; url={recorder}/taken"></head>
<body><h1>Blocked by the shop</h1>
<script>parent.document.title = "taken"; fetch("{recorder}/told", {method: "POST"})</script>
<img src="{recorder}/seen.png" onerror="parent.document.title = 'taken'">
<form action="{recorder}/" method="post">
<button>Sign in again</button></form>
<iframe src="javascript:parent.document.title='taken'"></iframe></body></html>"""


class RequestRecorder:
    """A server that the hostile page would send data to; it records each request."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[RequestRecorder]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append((await reader.readline()).decode().strip())
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


class QuoteArgs(BaseModel):
    number: int


class ShopArgs(BaseModel):
    product: str
    code: str


@dataclass(slots=True)
class FailingPipelines:
    app: Regente
    recorder: RequestRecorder
    shop_is_open: asyncio.Event = field(default_factory=asyncio.Event)

    async def stuck_batch(self, name: str, *, quotes: int = 12, answered: int = 5) -> int:
        """The first quotes are answered, then the route stalls; a second attempt gets an answer."""
        batch = await self.app.open_batch(
            name, stall_after=1.0, max_resumes=5, details={"route": "SP → RJ / transportadora 7"}
        )
        args = [{"number": number} for number in range(quotes)]
        keys = [f"{name}-{number:03}" for number in range(quotes)]
        for given, key in zip(args, keys, strict=True):
            await self.app.enqueue(
                "route-quotes",
                {**given, "number": given["number"] - answered},
                key=key,
                batch=batch,
            )
        return batch

    async def dead_letters(self, count: int, code: str = "BLOCKED_PAGE") -> list[int]:
        args = [{"product": f"chair-{number}", "code": code} for number in range(count)]
        return [await self.app.enqueue("shop-pages", given) for given in args]

    async def unanswered_payments(self, count: int) -> list[int]:
        """Each waits for a person; called again, it is answered."""
        return [await self.app.enqueue("payments", {}) for _ in range(count)]


@asynccontextmanager
async def run_failing_pipelines(database_url: str) -> AsyncIterator[FailingPipelines]:
    registry = Registry()
    settings = Settings(sweep_seconds=0.5, batches_seconds=0.3, drain_seconds=1.0)
    async with (
        RequestRecorder().waiting() as recorder,
        Regente(database_url, settings=settings, pipelines=registry) as app,
    ):
        failing_pipelines = FailingPipelines(app, recorder)

        @registry.pipeline(
            "route-quotes", args=QuoteArgs, retry=Retry(max_attempts=1), stall_after=None
        )
        async def quotes(task: Task[QuoteArgs]) -> dict[str, int]:
            if task.args.number >= 0 and task.attempt == 1:
                await asyncio.Event().wait()  # the route never answers this one
            return {"price": 100 + task.args.number}

        @registry.pipeline("shop-pages", args=ShopArgs, retry=Retry(max_attempts=1))
        async def shop_pages(task: Task[ShopArgs]) -> str:
            if not failing_pipelines.shop_is_open.is_set():
                task.snapshot("page.html", HOSTILE_PAGE.replace("{recorder}", recorder.url))
                raise Fatal(
                    "the shop shows a page without prices",
                    code=task.args.code,
                    details={"status": 403},
                )
            return task.args.product

        @registry.pipeline("payments", retry=Retry(max_attempts=1))
        async def payments(task: Task) -> float:
            def pay() -> float:
                if task.attempt == 1:
                    raise UnknownOutcome("the provider did not answer")
                return 2.5

            return await task.step("PAY", pay, on_unknown="hold")

        running = asyncio.create_task(app.run(concurrency=20, name="failing-pipelines"))
        try:
            yield failing_pipelines
        finally:
            app.stop_running()
            app.stop_running()
            await running
