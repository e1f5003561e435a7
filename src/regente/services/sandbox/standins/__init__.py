"""Stand-ins for paid or rate-limited services: real HTTP, the same answers for the same seed.

Each is a class like `Standin`, served by the sandbox below its prefix. A new one is added to
`standins`.
"""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter

from regente.services.sandbox.standins.league import League
from regente.services.sandbox.standins.openai_embeddings import OpenAiEmbeddings
from regente.services.sandbox.standins.openrouter import OpenRouter
from regente.services.sandbox.standins.quotes import QuotesStandin


class Standin(Protocol):
    prefix: str
    """Path below the sandbox's URL, like `/league`."""
    calls: dict[str, int]
    """How often each route was called, so what a caller would pay; shown at `/standins`."""

    def router(self) -> APIRouter:
        """Its routes, without the prefix."""

    def calm(self) -> None:
        """Remove all faults and set all counts to zero."""


def standins(seed: int) -> list[Standin]:
    return [QuotesStandin(seed), OpenRouter(seed), League(seed), OpenAiEmbeddings(seed)]
