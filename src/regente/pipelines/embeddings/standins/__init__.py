"""The embeddings API in the sandbox."""

from __future__ import annotations

from regente.pipelines.embeddings.standins.openai_embeddings import OpenAiEmbeddings
from regente.services.sandbox.standin import Standin


def standins(seed: int) -> list[Standin]:
    return [OpenAiEmbeddings(seed)]
