"""A sandbox that counts, by what is called, the requests that it serves at once, and when each
began. It knows nothing of lanes."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.pipelines.documents.standins.openrouter import OpenRouter
from regente.pipelines.embeddings.standins.openai_embeddings import OpenAiEmbeddings
from regente.pipelines.quotes.standins.quotes import QuotesStandin
from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox.library import Library
from regente.services.sandbox.sandbox import Sandbox
from regente.services.sandbox.standin import Standin

CALLED = {
    "/quotes/anthropic/": "analysis",
    "/quotes/serpapi/": "search",
    "/quotes/shop/": "shop",
    "/quotes/fipe/": "fipe",
    "/openrouter/api/": "chat",
    "/openai/v1/embeddings": "embeddings",
    "/league/": "league",
}


class Counts:
    def __init__(self) -> None:
        self.now: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)
        self.began: dict[str, list[float]] = defaultdict(list)

    def rate(self, what: str) -> float:
        """Requests per second between the first and the last."""
        began = self.began[what]
        return (len(began) - 1) / (began[-1] - began[0])


class Counting:
    """Each request takes `service_seconds` longer than its answer would."""

    def __init__(self, app: ASGIApp, counts: Counts, service_seconds: float) -> None:
        self._app = app
        self._counts = counts
        self._service_seconds = service_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        what = next((name for prefix, name in CALLED.items() if path.startswith(prefix)), None)
        if what is None:
            return await self._app(scope, receive, send)
        counts = self._counts
        counts.now[what] += 1
        counts.most[what] = max(counts.most[what], counts.now[what])
        counts.began[what].append(time.monotonic())
        try:
            await asyncio.sleep(self._service_seconds)
            return await self._app(scope, receive, send)
        finally:
            counts.now[what] -= 1


class CountingSandbox(Sandbox):
    def __init__(self, service_seconds: float) -> None:
        standins: list[Standin] = [QuotesStandin(7), OpenRouter(7), OpenAiEmbeddings(7), League(7)]
        super().__init__(proxies=0, seed=7, standins=standins)
        self.counts = Counts()
        self._service_seconds = service_seconds

    def _app(self, library: Library) -> FastAPI:
        app = super()._app(library)
        app.add_middleware(Counting, counts=self.counts, service_seconds=self._service_seconds)
        return app
