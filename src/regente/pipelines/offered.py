"""The pipelines that come with Regente besides the missions, put together for a process that runs them.

The one place that knows all of them: each is a folder with a `setup.py` that registers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.outgoing.http import Http
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import PIPELINES as DOCUMENTS
from regente.pipelines.documents.setup import DocumentPipelines, register_documents
from regente.pipelines.embeddings.settings import EmbeddingSettings
from regente.pipelines.embeddings.setup import PIPELINES as EMBEDDINGS
from regente.pipelines.embeddings.setup import register_embeddings
from regente.pipelines.missions.setup import PIPELINES as MISSIONS
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.setup import PIPELINES as QUOTES
from regente.pipelines.quotes.setup import QuotePipelines, register_quotes
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.setup import PIPELINES as ROUNDS
from regente.pipelines.rounds.setup import register_rounds

OFFERED = (*MISSIONS, *QUOTES, *DOCUMENTS, *ROUNDS, *EMBEDDINGS)


class SandboxSettings(BaseSettings):
    """Where the stand-ins are that answer for a provider without a key."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_", frozen=True, extra="ignore")

    sandbox_url: str = Field("http://127.0.0.1:8100", description="`regente sandbox`: answers for providers without a key")


@dataclass(frozen=True, slots=True)
class Offer:
    http: Http
    documents: DocumentPipelines
    quotes: QuotePipelines

    async def close(self) -> None:
        await self.http.close()
        await self.documents.close()
        await self.quotes.close()


def offer(registry: Registry, client: Client) -> Offer:
    http = Http()
    register_embeddings(registry, client, http, EmbeddingSettings())
    register_rounds(registry, client, http, RoundSettings(), SandboxSettings().sandbox_url)
    documents = register_documents(registry, client, DocumentSettings(), SandboxSettings().sandbox_url)
    quotes = register_quotes(registry, client, QuotesSettings(), SandboxSettings().sandbox_url)
    return Offer(http, documents, quotes)
