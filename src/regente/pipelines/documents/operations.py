"""The operations of documents, for CLI and API: projects, executions, resume and reprocess."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from pydantic import ValidationError

from regente.engine.client import Client
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.engine.models import Resumed
from regente.pipelines.documents.models import (
    ORIGIN,
    STALL_SECONDS,
    DocumentStatus,
    ExecutionStatus,
    Project,
)
from regente.pipelines.documents.queries import QUERIES
from regente.pipelines.documents.read_models import (
    DocumentCounts,
    DocumentExecution,
    DocumentResult,
)
from regente.pipelines.documents.sources import NewDocument, checked, documents_in
from regente.queries import Row

MAX_PAGE = 2_000


class DocumentOperations:
    def __init__(self, client: Client) -> None:
        self._client = client
        client.registry.declare("documents")

    # Projects.

    async def projects(self) -> list[Project]:
        return [
            Project(**row)
            for row in await QUERIES.fetch_all(self._client.database, "projects", name=None)
        ]

    async def project(self, name: str) -> Project:
        rows = await QUERIES.fetch_all(self._client.database, "projects", name=name)
        if not rows:
            raise NotFound(
                f"there is no project {name!r}: "
                f"create it with `regente documents project {name} --class A --class B`"
            )
        return Project(**rows[0])

    async def put_project(self, **fields: Any) -> Project:
        """Create or change the project. Submitted executions keep their settings."""
        try:
            project = Project(**fields)
        except ValidationError as error:
            wrong = (
                f"{'.'.join(map(str, one['loc'])) or 'project'}: {one['msg']}"
                for one in error.errors()
            )
            raise InvalidInput(f"the project is invalid: {'; '.join(wrong)}") from None
        params = {**project.model_dump(), "classes": _classes(project)}
        await QUERIES.execute(self._client.database, "put_project", **params)
        return project

    async def submit_folder(
        self, folder: Path, *, project: str = "default", name: str = "", by: str | None = None
    ) -> int:
        """Submit the files of a folder, which runners must be able to read."""
        place, found = await asyncio.to_thread(documents_in, folder)
        return await self._submit(found, await self._chosen(project), name, by, folder=place)

    async def submit_contents(
        self,
        documents: Sequence[NewDocument],
        *,
        project: str = "default",
        name: str = "",
        by: str | None = None,
    ) -> int:
        """Submit contents, stored until their documents are done; too large ones have none."""
        return await self._submit(
            list(documents), await self._chosen(project), name, by, folder=None
        )

    async def _submit(
        self,
        documents: list[NewDocument],
        project: Project,
        name: str,
        by: str | None,
        *,
        folder: str | None,
    ) -> int:
        checked(documents)
        execution_id = await self._client.open_batch(
            name or f"documents-{secrets.token_hex(6)}",
            stall_after=STALL_SECONDS,
            max_resumes=project.max_retries_execucao,
            details={"route": ORIGIN, "pipeline": "documents", "project": project.name},
        )
        async with self._client.database.transaction() as connection:
            added = await QUERIES.fetch_all(
                connection,
                "add_execution",
                id=execution_id,
                project=project.name,
                classes=_classes(project),
                by=by,
                instructions=project.instructions,
                model=project.model,
                folder=folder,
                source="upload" if folder is None else "folder",
            )
            if not added:
                raise IllegalTransition(f"an execution named {name!r} exists already")
            ids = await self._client.enqueue_many(
                "documents",
                [{"codigo": one.code} for one in documents],
                batch=execution_id,
                connection=connection,
                keys=[f"{execution_id}/{one.code}" for one in documents],
                max_attempts=project.max_retries_documento + 1,
            )
            await _add(connection, execution_id, dict(zip(ids, documents, strict=True)))
        return execution_id

    # Questions.

    async def executions(
        self, *, before_id: int | None = None, limit: int = 50
    ) -> list[DocumentExecution]:
        """Newest first."""
        return [_execution(row) for row in await self._executions(None, before_id, limit)]

    async def execution(self, execution: int | str) -> DocumentExecution:
        execution_id = execution if isinstance(execution, int) else await self._named(execution)
        rows = await self._executions(execution_id, None, 1)
        if not rows:
            raise NotFound(f"there is no execution {execution} of documents")
        return _execution(rows[0])

    async def documents(
        self,
        execution: int | str,
        *,
        statuses: Sequence[str] | None = None,
        codigo: str | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[DocumentResult]:
        """Its documents, newest first."""
        unknown = [one for one in statuses or () if one not in list(DocumentStatus)]
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} is not a status; known: {', '.join(DocumentStatus)}"
            )
        found = await self.execution(execution)
        rows = await QUERIES.fetch_all(
            self._client.database,
            "results",
            execution_id=found.id,
            codigo=codigo,
            before_id=before_id,
            statuses=None if statuses is None else list(statuses),
            limit=max(1, min(limit, MAX_PAGE)),
        )
        return [DocumentResult(**row) for row in rows]

    async def resume(self, execution: int | str) -> Resumed:
        """Resume a stalled execution. Of two concurrent calls only one resumes it."""
        return await self._client.resume_batch((await self.execution(execution)).id)

    async def reprocess(
        self,
        execution: int | str,
        *,
        codes: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[int]:
        """Retry failed documents."""
        return await self._client.reprocess_batch(
            (await self.execution(execution)).id, codes=codes, ids=ids
        )

    async def _chosen(self, project: str) -> Project:
        try:
            return await self.project(project)
        except NotFound as error:
            raise InvalidInput(error.message, code="UNKNOWN_PROJECT") from None

    async def _named(self, name: str) -> int:
        rows = await QUERIES.fetch_all(self._client.database, "named_execution", name=name)
        if not rows:
            raise NotFound(f"there is no execution {name!r} of documents")
        return int(rows[0]["id"])

    async def _executions(
        self, execution_id: int | None, before_id: int | None, limit: int
    ) -> list[Row]:
        return await QUERIES.fetch_all(
            self._client.database, "executions", id=execution_id, before_id=before_id, limit=limit
        )


async def _add(
    connection: AsyncConnection[Any], execution_id: int, documents: dict[int, NewDocument]
) -> None:
    async with connection.cursor() as cursor:
        await cursor.executemany(
            QUERIES["add_document"],
            [
                {
                    "task_id": task_id,
                    "execution_id": execution_id,
                    "code": one.code,
                    "size_bytes": one.size_bytes,
                }
                for task_id, one in documents.items()
            ],
        )
    for task_id, one in documents.items():
        if one.content is not None:
            await QUERIES.execute(
                connection,
                "add_content",
                task_id=task_id,
                body=await asyncio.to_thread(one.content),
            )


def _execution(row: Row) -> DocumentExecution:
    counts = DocumentCounts(**{status.value: row.pop(status.value) for status in DocumentStatus})
    ended = row["total"] - counts.PENDENTE - counts.PROCESSANDO
    progress = round(100 * ended / row["total"], 2) if row["total"] else 0.0
    status = ExecutionStatus.of_batch(row.pop("status"))
    return DocumentExecution(**row, status=status, documentos=counts, progresso_pct=progress)


def _classes(project: Project) -> str:
    return json.dumps([one.model_dump() for one in project.classes], ensure_ascii=False)
