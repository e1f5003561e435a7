"""The database operations of the documents' pipeline."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from regente.engine.database import Database
from regente.engine.errors import Fatal, Skip
from regente.engine.task import Task
from regente.pipelines.documents.classifier import Verdict
from regente.pipelines.documents.extraction import Extracted, skipped
from regente.pipelines.documents.models import Document, DocumentClass
from regente.pipelines.documents.queries import QUERIES


class DocumentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def document(self, task_id: int) -> Document:
        row = await QUERIES.fetch_one(self._database, "document", task_id=task_id)
        if row is None:
            raise Fatal("the task has no document: submit an execution instead", code="NO_DOCUMENT")
        return Document(**{**row, "classes": tuple(DocumentClass(**one) for one in row["classes"])})

    async def content(self, document: Document) -> bytes:
        """The content of an uploaded document. A missing one was too large to be stored."""
        row = await QUERIES.fetch_one(self._database, "content", task_id=document.task_id)
        if row is None:
            raise skipped(
                "TOO_LARGE",
                f"the file has {document.size_bytes:,} bytes: it was too large to be stored",
            )
        return bytes(row["body"])

    async def keep_reason(self, task: Task[Any], reason: Skip) -> None:
        async with task.transaction() as connection:
            await QUERIES.execute(
                connection, "keep_reason", task_id=task.id, code=reason.code, reason=reason.message
            )

    async def keep_answer(self, task: Task[Any], answer: str) -> None:
        async with task.transaction() as connection:
            await QUERIES.execute(connection, "keep_answer", task_id=task.id, answer=answer)

    async def store_result(
        self, connection: AsyncConnection[Any], task_id: int, found: Extracted, verdict: Verdict
    ) -> None:
        await QUERIES.execute(
            connection,
            "store_result",
            task_id=task_id,
            kind=found.kind,
            sha256=found.sha256,
            pages=found.pages,
            characters=len(found.text),
            category=verdict.category,
            confidence=verdict.confidence,
            rationale=verdict.rationale,
            model=verdict.model,
        )
