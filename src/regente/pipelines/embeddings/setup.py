"""Registers the embeddings' pipeline in a process that runs it."""

from __future__ import annotations

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.http_client.client import HttpClient
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.embeddings.embedders import Embedders
from regente.pipelines.embeddings.models import EmbeddingArgs
from regente.pipelines.embeddings.pipeline import EmbeddingPipeline
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.storage import Storage

RETRY = Retry(max_attempts=5, first=2.0, factor=2.0, maximum=300.0)
STALL_SECONDS = 600.0


def register(host: Host) -> Registered:
    http = HttpClient()
    register_embeddings(host.registry, host.client, http, EmbeddingSettings())
    return Registered(http.close)


def register_embeddings(
    registry: Registry, client: Client, http: HttpClient, settings: EmbeddingSettings
) -> None:
    storage = Storage(client.database, pgvector=settings.pgvector == "auto")
    pipeline = EmbeddingPipeline(client, Embedders(http, settings), storage)
    registry.pipeline(
        "embeddings",
        args=EmbeddingArgs,
        retry=RETRY,
        stall_after=STALL_SECONDS,
        concurrency=settings.concurrency,
    )(pipeline.embed)
