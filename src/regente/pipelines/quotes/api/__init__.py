"""The HTTP API of quotes: quotes, lots, and the endpoints of their specification."""

from __future__ import annotations

from regente.pipelines.quotes.api import quotes, system

ROUTERS = (system.routes, quotes.routes)
