"""An app that embeds with the sandbox's stand-in, and functions that read what it stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.models import BatchInfo
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.http_client.client import HttpClient
from regente.pipelines.embeddings import setup
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.standins.openai_embeddings import OpenAiEmbeddings
from regente.services.sandbox.sandbox import Sandbox
from regente.settings import Settings
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

MODEL = "text-embedding-3-small@32"
KEY = "sk-a-key-that-must-not-leak"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, standins=[OpenAiEmbeddings(1)]) as opened:
        yield opened


@pytest.fixture
def provider(sandbox: Sandbox) -> OpenAiEmbeddings:
    return provider_of(sandbox)


def provider_of(sandbox: Sandbox) -> OpenAiEmbeddings:
    (found,) = [one for one in sandbox.standins if isinstance(one, OpenAiEmbeddings)]
    return found


def settings_for(sandbox: Sandbox, **changes: Any) -> EmbeddingSettings:
    given = {
        "base_url": f"{sandbox.url}/openai/v1",
        "api_key": KEY,
        "model": MODEL,
        "texts_per_task": 10,
        "pgvector": "off",
    }
    return EmbeddingSettings(**{**given, **changes})


@pytest.fixture
def embedding_settings(sandbox: Sandbox, request: pytest.FixtureRequest) -> EmbeddingSettings:
    return settings_for(sandbox, **getattr(request, "param", {}))


def with_settings(**changes: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("embedding_settings", [changes], indirect=True, ids=["settings"])


@pytest.fixture
async def app(
    database_url: str,
    registry: Registry,
    settings: Settings,
    embedding_settings: EmbeddingSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Regente]:
    """The usual app with quick retries."""
    monkeypatch.setattr(setup, "RETRY", Retry(max_attempts=3, first=0.05, maximum=0.1))
    http = HttpClient()
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        setup.register_embeddings(registry, opened, http, embedding_settings)
        yield opened
    await http.close()


@pytest.fixture
def operations(app: Regente, embedding_settings: EmbeddingSettings) -> EmbeddingOperations:
    return EmbeddingOperations(app, embedding_settings)


async def embed_all(
    app: Regente, operations: EmbeddingOperations, texts: Sequence[str], **options: Any
) -> BatchInfo:
    """Adds the texts, runs until their batch has ended, and returns it."""
    async with runner_in(app):
        added = await operations.add(texts, **options)
        return await ended(app, added.batch_id)


async def ended(app: Regente, batch_id: int, within_seconds: float = 60.0) -> BatchInfo:
    async def found() -> BatchInfo | None:
        batch = await app.batch(batch_id)
        return batch if batch.status in ("completed", "failed") else None

    batch = await eventually_async(found, within_seconds=within_seconds)
    assert batch is not None
    return batch


async def rows(app: Regente, text: str, **params: Any) -> list[dict[str, Any]]:
    async with (
        app.database.transaction() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute("SET LOCAL search_path = regente, public")
        await cursor.execute(text.encode(), params)
        return await cursor.fetchall() if cursor.description is not None else []


async def stored(app: Regente) -> dict[str, list[float]]:
    found = await rows(app, "SELECT text, vector::real[] AS vector FROM embeddings")
    texts = {row["text"]: row["vector"] for row in found}
    assert len(texts) == len(found), "a content has two vectors"
    return texts
