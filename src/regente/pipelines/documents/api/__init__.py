"""The HTTP API of documents: projects, executions, and the endpoints of their specification."""

from __future__ import annotations

from regente.pipelines.documents.api import documents, execucoes

ROUTERS = (documents.routes, execucoes.routes)
