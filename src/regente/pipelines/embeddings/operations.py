"""The operations of embeddings, for CLI and API: add texts, list, search."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from regente.engine.client import Client
from regente.engine.errors import InvalidInput
from regente.http_client.client import HttpClient
from regente.pipelines.embeddings.contents import checked_text
from regente.pipelines.embeddings.embedders import Embedders, checked_model
from regente.pipelines.embeddings.queries import QUERIES
from regente.pipelines.embeddings.read_models import (
    AddedTexts,
    Embedding,
    EmbeddingStats,
    FoundText,
    ModelFigures,
)
from regente.pipelines.embeddings.search import Search
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.storage import convert, layout

MAX_TASK_CHARACTERS = 100_000
TASKS_AT_ONCE = 200
MAX_PAGE = 1000
MAX_MATCHES = 1000

Progress = Callable[[int], None]


class EmbeddingOperations:
    def __init__(self, client: Client, settings: EmbeddingSettings | None = None) -> None:
        client.registry.declare("embeddings")
        self._client = client
        self._database = client.database
        self.settings = settings or EmbeddingSettings()

    def model(self, name: str | None) -> str:
        return checked_model(name, self.settings)

    async def add(
        self,
        texts: Iterable[str],
        *,
        model: str | None = None,
        batch: int | str | None = None,
        progress: Progress | None = None,
    ) -> AddedTexts:
        """Queue texts as they are read, so that a long file is never in memory as a whole. A text
        that cannot be embedded ends it; what came before stays queued, and adding everything again
        does no harm."""
        chosen = self.model(model)
        name = (
            batch
            if batch is not None
            else f"embeddings {datetime.now(UTC):%Y-%m-%d %H:%M:%S} {secrets.token_hex(2)}"
        )
        known_batch = await self._client.batch(name) if isinstance(name, int) else None
        batch_id = known_batch.id if known_batch else await self._client.open_batch(str(name))
        count = tasks = 0
        slab: list[dict[str, Any]] = []
        for chunk in chunks(texts, self.settings.texts_per_task):
            slab.append({"model": chosen, "texts": chunk})
            count += len(chunk)
            if len(slab) == TASKS_AT_ONCE:
                tasks += len(await self._client.enqueue_many("embeddings", slab, batch=batch_id))
                slab = []
                if progress is not None:
                    progress(count)
        if slab:
            tasks += len(await self._client.enqueue_many("embeddings", slab, batch=batch_id))
        return AddedTexts(
            batch_id=batch_id,
            batch=known_batch.name if known_batch else str(name),
            model=chosen,
            texts=count,
            tasks=tasks,
        )

    async def stats(self) -> EmbeddingStats:
        models = [ModelFigures(**row) for row in await QUERIES.fetch_all(self._database, "models")]
        kind = (await layout(self._database)).kind
        size = (await QUERIES.fetch_all(self._database, "size"))[0]["bytes"]
        vectors = sum(one.vectors for one in models)
        return EmbeddingStats(
            storage=kind.value,
            bytes=size,
            vectors=vectors,
            models=models,
            tasks=await self._client.counts("embeddings"),
        )

    async def find(
        self, *, model: str | None = None, before_id: int | None = None, limit: int = 100
    ) -> list[Embedding]:
        """A page of embeddings, newest first; `before_id` is the last id of the previous page."""
        params = {"model": model, "before_id": before_id, "limit": max(1, min(limit, MAX_PAGE))}
        return [
            Embedding(**row) for row in await QUERIES.fetch_all(self._database, "list", **params)
        ]

    async def search(
        self, text: str, *, model: str | None = None, limit: int = 10
    ) -> list[FoundText]:
        """The nearest texts of the model, best first."""
        if not 1 <= limit <= MAX_MATCHES:
            raise InvalidInput(f"a search finds 1 to {MAX_MATCHES:,} texts, not {limit}")
        http = HttpClient()
        try:
            return await self._search(http).nearest(text, self.model(model), limit)
        finally:
            await http.close()

    async def use_pgvector(self) -> str:
        """Convert all vectors to pgvector. Returns how they are stored."""
        return (await convert(self._database)).kind.value

    async def index(self, model: str | None = None) -> str:
        http = HttpClient()
        try:
            return await self._search(http).index(self.model(model))
        finally:
            await http.close()

    def _search(self, http: HttpClient) -> Search:
        return Search(self._database, Embedders(http, self.settings))


def chunks(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """Chunks of texts, one for each task, limited in number and characters."""
    chunk: list[str] = []
    characters = 0
    for number, given in enumerate(texts, 1):
        text = checked_text(given, f"text {number}")
        if chunk and (len(chunk) == most or characters + len(text) > MAX_TASK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += len(text)
    if chunk:
        yield chunk
