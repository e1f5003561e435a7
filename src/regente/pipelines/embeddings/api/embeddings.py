"""`/api/embeddings`: add texts, show statistics, search by similarity."""

from __future__ import annotations

from typing import Any

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.problems import MEDIA_TYPE
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.pipelines.embeddings.api.models import (
    AddTexts,
    FoundTexts,
    SearchTexts,
)
from regente.pipelines.embeddings.contents import checked_text
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.read_models import AddedTexts, EmbeddingStats

routes = resource("/api/embeddings", "embeddings")

PROVIDER_FAILED: dict[int | str, dict[str, Any]] = {
    502: {
        "description": "The provider of embeddings does not answer as it should.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


@routes.post("", summary="Queue texts to be embedded", status_code=202)
async def add(body: AddTexts, api: ApiDep, who: Operator, note: AuditNoteDep) -> AddedTexts:
    """Checks all texts first; durable. Texts that are embedded already are not paid for again."""
    texts = [checked_text(text, f"texts.{number}") for number, text in enumerate(body.texts)]
    added = await EmbeddingOperations(api.regente).add(texts, model=body.model, batch=body.batch)
    note.about(
        {"batch_id": added.batch_id},
        after={"texts": added.texts, "tasks": added.tasks, "model": added.model},
    )
    return added


@routes.get("/stats", summary="Count vectors by model, and open tasks")
async def stats(api: ApiDep, who: Viewer) -> EmbeddingStats:
    return await EmbeddingOperations(api.regente).stats()


@routes.post("/search", summary="Find the texts most similar to a text", responses=PROVIDER_FAILED)
async def search(body: SearchTexts, api: ApiDep, who: Operator, note: AuditNoteDep) -> FoundTexts:
    """By the cosine of their vectors. A text without a vector costs a call to the provider."""
    note.skip()
    operations = EmbeddingOperations(api.regente)
    found = await operations.search(body.text, model=body.model, limit=body.limit)
    return FoundTexts(model=operations.model(body.model), items=found)
