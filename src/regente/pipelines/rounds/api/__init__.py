"""The HTTP API of rounds: rounds, matches, and the endpoints of their specification."""

from __future__ import annotations

from regente.pipelines.rounds.api import rounds, scrape

ROUTERS = (scrape.routes, rounds.routes)
