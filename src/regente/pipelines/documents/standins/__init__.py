"""The chat API in the sandbox."""

from __future__ import annotations

from regente.pipelines.documents.standins.openrouter import OpenRouter
from regente.services.sandbox.standin import Standin


def standins(seed: int) -> list[Standin]:
    return [OpenRouter(seed)]
