"""The HTTP API of embeddings."""

from __future__ import annotations

from regente.pipelines.embeddings.api import embeddings

ROUTERS = (embeddings.routes,)
