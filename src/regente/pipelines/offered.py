"""The pipelines that come with Regente besides the missions, put together for a process that runs
them.

The one place that knows all of them: each is a folder with a `setup.py` that registers it. Each
brings its own libraries along, so only those that are wanted are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.pipelines.missions.setup import PIPELINES as MISSIONS


class Closing(Protocol):
    async def close(self) -> None: ...


class SandboxSettings(BaseSettings):
    """Where the stand-ins are that answer for a provider without a key."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_", frozen=True, extra="ignore")

    sandbox_url: str = Field(
        "http://127.0.0.1:8100",
        description="`regente sandbox`: answers for providers without a key",
    )


def _quotes(registry: Registry, client: Client, sandbox_url: str) -> Closing:
    from regente.pipelines.quotes.settings import QuotesSettings
    from regente.pipelines.quotes.setup import register_quotes

    return register_quotes(registry, client, QuotesSettings(), sandbox_url)


def _rounds(registry: Registry, client: Client, sandbox_url: str) -> Closing:
    from regente.pipelines.rounds.settings import RoundSettings
    from regente.pipelines.rounds.setup import register_rounds

    http = HttpClient()
    register_rounds(registry, client, http, RoundSettings(), sandbox_url)
    return http


def _embeddings(registry: Registry, client: Client, _: str) -> Closing:
    from regente.pipelines.embeddings.settings import EmbeddingSettings
    from regente.pipelines.embeddings.setup import register_embeddings

    http = HttpClient()
    register_embeddings(registry, client, http, EmbeddingSettings())
    return http


def _documents(registry: Registry, client: Client, sandbox_url: str) -> Closing:
    from regente.pipelines.documents.settings import DocumentSettings
    from regente.pipelines.documents.setup import register_documents

    return register_documents(registry, client, DocumentSettings(), sandbox_url)


_OFFERS: dict[tuple[str, ...], Callable[[Registry, Client, str], Closing]] = {
    ("quotes", "recover_stuck_quotes", "cleanup_old_processing"): _quotes,
    ("rounds", "matches"): _rounds,
    ("embeddings",): _embeddings,
    ("documents",): _documents,
}
OFFERED = (*MISSIONS, *(name for names in _OFFERS for name in names))


def offer(registry: Registry, client: Client, wanted: Collection[str] | None) -> list[Closing]:
    """Register those of which something is wanted, or all; what is returned is to be closed at the
    end."""
    url = SandboxSettings().sandbox_url
    return [
        register(registry, client, url)
        for names, register in _OFFERS.items()
        if wanted is None or {*names} & {*wanted}
    ]
