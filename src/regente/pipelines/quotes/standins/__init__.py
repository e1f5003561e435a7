"""The providers of quotes in the sandbox."""

from __future__ import annotations

from regente.pipelines.quotes.standins.quotes import QuotesStandin
from regente.services.sandbox.standin import Standin


def standins(seed: int) -> list[Standin]:
    return [QuotesStandin(seed)]
