"""Finds the texts most similar to a text, by the cosine of their vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import sql

from regente.engine.database import Database
from regente.engine.errors import InvalidInput, TaskError
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.embeddings.contents import checked_text, content_of
from regente.pipelines.embeddings.embedders import Embedders
from regente.pipelines.embeddings.openai_api import Refused
from regente.pipelines.embeddings.queries import QUERIES
from regente.pipelines.embeddings.read_models import FoundText
from regente.pipelines.embeddings.storage import StorageKind, layout
from regente.pipelines.embeddings.vectors import Vector, check_vectors, literal, norm_of, vector_of

MAX_ARRAY_VALUES = 10_000_000
"""Maximum vectors times dimensions of a search without pgvector: some seconds."""
SEARCH_MILLISECONDS = 30_000
MAX_INDEXED_DIMENSIONS = 2_000


class Search:
    def __init__(self, database: Database, embedders: Embedders) -> None:
        self._database = database
        self._embedders = embedders

    async def nearest(self, text: str, model: str, limit: int) -> list[FoundText]:
        dimensions = await self._dimensions(model)
        vector = await self._vector(checked_text(text, "the text"), model, dimensions)
        found = await layout(self._database)
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "be_quick", milliseconds=SEARCH_MILLISECONDS)
            params = {"vector": literal(vector), "limit": limit}
            if found.kind is StorageKind.PGVECTOR:
                parts = _parts(found.schema, model, dimensions)
                rows = await QUERIES.fetch_all(
                    connection, QUERIES.format("nearest_by_pgvector", **parts), **params
                )
            else:
                limit_rows = MAX_ARRAY_VALUES // dimensions
                counted = await QUERIES.fetch_all(
                    connection, "count_up_to", model=model, limit=limit_rows + 1
                )
                if counted[0]["count"] > limit_rows:
                    raise InvalidInput(
                        f"more than {limit_rows:,} vectors are searched only with pgvector",
                        code="TOO_MANY_VECTORS",
                    )
                rows = await QUERIES.fetch_all(
                    connection, "nearest_by_array", model=model, norm=norm_of(vector), **params
                )
        return [FoundText(**{**row, "similarity": round(row["similarity"], 6)}) for row in rows]

    async def index(self, model: str) -> str:
        """Build pgvector's index for a model and return its name. Searches become approximate."""
        dimensions, found = await self._dimensions(model), await layout(self._database)
        if found.kind is StorageKind.ARRAY:
            raise InvalidInput(
                "the vectors are not stored with pgvector: run `regente embeddings pgvector` first"
            )
        if dimensions > MAX_INDEXED_DIMENSIONS:
            raise InvalidInput(
                f"pgvector indexes up to {MAX_INDEXED_DIMENSIONS:,} dimensions; {model} "
                f"has {dimensions:,}"
            )
        name = f"embeddings_near_{hashlib.sha256(model.encode()).hexdigest()[:12]}"
        parts = {**_parts(found.schema, model, dimensions), "name": sql.Identifier(name)}
        async with self._database.connection() as connection:
            await QUERIES.execute(connection, QUERIES.format("create_index", **parts))
        return name

    async def _dimensions(self, model: str) -> int:
        known = {
            row["model"]: row["dimensions"]
            for row in await QUERIES.fetch_all(self._database, "known_models")
        }
        if model not in known:
            others = (
                f"there are some of {', '.join(sorted(known))}"
                if known
                else "there are none at all"
            )
            raise InvalidInput(f"there are no vectors of {model}; {others}", code="NO_VECTORS")
        return int(known[model])

    async def _vector(self, text: str, model: str, dimensions: int) -> Vector:
        """The text's vector: the stored one, or a new one of the provider."""
        content = content_of(model, text)
        stored = await QUERIES.fetch_all(
            self._database, "vector_of", model=model, hash=content.hash
        )
        if stored:
            return vector_of(stored[0]["vector"])
        embedder = self._embedders.of(model)
        with _as_call_failed():
            (found,) = await embedder.embed([content])
            if not isinstance(found, Refused):
                check_vectors([found], dimensions)
        if isinstance(found, Refused):
            raise InvalidInput(found.message, code="TEXT_REFUSED")
        return found


@contextmanager
def _as_call_failed() -> Iterator[None]:
    """Turn a task's error into one for the client, as a search is not retried."""
    try:
        yield
    except TaskError as error:
        failed = (
            error.__cause__
            if isinstance(error.__cause__, CallFailed)
            else CallFailed(CallFailure.PROTOCOL, error.message)
        )
        raise failed from None


def _parts(schema: str, model: str, dimensions: int) -> dict[str, sql.Composable]:
    return {
        "schema": sql.Identifier(schema),
        "model": sql.Literal(model),
        "dimensions": sql.Literal(dimensions),
    }
