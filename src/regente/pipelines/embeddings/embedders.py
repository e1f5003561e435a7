"""Chooses the model and its embedder by a model's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from regente.engine.errors import InvalidInput
from regente.http_client.client import HttpClient
from regente.http_client.lanes import InLane, without_lane
from regente.pipelines.embeddings import hashing, wordllama
from regente.pipelines.embeddings.contents import Content
from regente.pipelines.embeddings.hashing import HashingEmbedder
from regente.pipelines.embeddings.openai_api import OpenAiEmbedder, Refused
from regente.pipelines.embeddings.settings import DEFAULT_API_MODEL, EmbeddingSettings
from regente.pipelines.embeddings.vectors import MAX_DIMENSIONS, Vector
from regente.pipelines.embeddings.wordllama import WordLlamaEmbedder

_NAME = re.compile(r"(?P<model>[A-Za-z0-9][A-Za-z0-9_.:/-]{0,150})(@(?P<dimensions>[0-9]{1,5}))?")


class Embedder(Protocol):
    @property
    def dimensions(self) -> int | None:
        """The dimensions of its vectors, if known beforehand."""

    async def embed(self, contents: Sequence[Content]) -> Sequence[Vector | Refused]:
        """Embed the contents in order. Raises the engine's errors."""


@dataclass(frozen=True, slots=True)
class ModelName:
    model: str
    dimensions: int | None

    @classmethod
    def parse(cls, name: str) -> ModelName:
        found = _NAME.fullmatch(name)
        if found is None:
            raise InvalidInput(
                f"{name!r:.100} is not a model: write it like text-embedding-3-small, or "
                "with @256 behind it"
            )
        dimensions = int(found["dimensions"]) if found["dimensions"] else None
        if dimensions is not None and not 0 < dimensions <= MAX_DIMENSIONS:
            raise InvalidInput(
                f"a model has 1 to {MAX_DIMENSIONS:,} dimensions, not {dimensions:,}"
            )
        return cls(found["model"], dimensions)


def default_model(settings: EmbeddingSettings) -> str:
    """The configured model, else the API's, else the installed local model, else `hashing`."""
    if settings.model:
        return settings.model
    if settings.api_key or settings.base_url:
        return DEFAULT_API_MODEL
    return wordllama.NAME if wordllama.is_installed() else hashing.NAME


def checked_model(name: str | None, settings: EmbeddingSettings) -> str:
    """The model's name for tasks; raises `InvalidInput` if it is invalid."""
    chosen = name or default_model(settings)
    parsed = ModelName.parse(chosen)
    if parsed.model == wordllama.NAME and parsed.dimensions not in (None, wordllama.DIMENSIONS):
        raise InvalidInput(f"{wordllama.NAME} has only {wordllama.DIMENSIONS} dimensions")
    return parsed.model if parsed.model == wordllama.NAME else chosen


class Embedders:
    """The embedders by the model's name."""

    def __init__(self, http: HttpClient, settings: EmbeddingSettings) -> None:
        self._http = http
        self._settings = settings

    def of(self, name: str, in_lane: InLane = without_lane) -> Embedder:
        """The embedder, which calls an API in its lane; raises `InvalidInput` if this process has
        none for the model."""
        parsed = ModelName.parse(checked_model(name, self._settings))
        if parsed.model == hashing.NAME:
            return HashingEmbedder(parsed.dimensions)
        if parsed.model == wordllama.NAME:
            if not wordllama.is_installed():
                raise InvalidInput(
                    "wordllama is not installed: pip install 'regente[embeddings]'",
                    code="MODEL_MISSING",
                )
            return WordLlamaEmbedder()
        if not (self._settings.api_key or self._settings.base_url):
            raise InvalidInput(
                f"{parsed.model} needs an API: set REGENTE_EMBEDDINGS_API_KEY, or "
                "REGENTE_EMBEDDINGS_BASE_URL for your own server "
                "(models without an API: hashing, wordllama)",
                code="NO_API_KEY",
            )
        return OpenAiEmbedder(
            self._http, self._settings, parsed.model, parsed.dimensions, in_lane=in_lane
        )
