"""`/api/documents`: projects, and executions of uploads and folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query
from fastapi import Path as InPath
from starlette.datastructures import UploadFile
from starlette.requests import Request

from regente.api.access.roles import Admin, Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import Id
from regente.api.models.basics import Page, PageQuery
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.api.uploads import files_of, takes_upload, text_of, uploaded
from regente.pipelines.documents.api.models import (
    UPLOAD,
    DocumentQuery,
    FolderExecution,
    ProjectFields,
)
from regente.pipelines.documents.models import MAX_DOCUMENTS, Project
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.read_models import DocumentExecution, DocumentResult
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.sources import NewDocument, folder_below

routes = resource("/api/documents", "documents")


async def _settings() -> DocumentSettings:
    return DocumentSettings()


Limits = Annotated[DocumentSettings, Depends(_settings)]
ProjectName = Annotated[
    str, InPath(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/]+$", examples=["contratos"])
]


@routes.get("/projects", summary="List projects: classes and limits")
async def projects(api: ApiDep, who: Viewer) -> list[Project]:
    return await _operations(api).projects()


@routes.put("/projects/{project}", summary="Create or change a project")
async def put_project(
    project: ProjectName, body: ProjectFields, api: ApiDep, who: Admin, note: AuditNoteDep
) -> Project:
    """Executions that were submitted before keep their settings."""
    made = await _operations(api).put_project(name=project, **body.model_dump())
    note.about({"project": project}, after=made.model_dump())
    return made


@routes.post(
    "/executions", summary="Classify the files of an upload", status_code=201, openapi_extra=UPLOAD
)
@takes_upload
async def upload(
    request: Request, api: ApiDep, who: Operator, note: AuditNoteDep, limits: Limits
) -> DocumentExecution:
    """Up to 2,000 files, stored until their documents are done; too large ones are `PULADO`."""
    async with uploaded(request, max_bytes=limits.upload_bytes, max_files=MAX_DOCUMENTS) as form:
        documents = [_document(file, limits.max_file_bytes) for file in files_of(form, "files")]
        project, name = text_of(form, "project", "default"), text_of(form, "name", "")
        execution_id = await _operations(api).submit_contents(
            documents, project=project, name=name, by=who.name
        )
    return await _submitted(api, execution_id, note)


@routes.post(
    "/executions/folder", summary="Classify the files of a folder on the server", status_code=201
)
async def folder(
    body: FolderExecution, api: ApiDep, who: Admin, note: AuditNoteDep, limits: Limits
) -> DocumentExecution:
    """Only below REGENTE_DOCUMENTS_ROOT, if that is set. Runners must be able to read it."""
    place = folder_below(limits.root, Path(body.folder))
    execution_id = await _operations(api).submit_folder(
        place, project=body.project, name=body.name, by=who.name
    )
    return await _submitted(api, execution_id, note)


@routes.get("/executions", summary="List executions, newest first")
async def executions(
    query: Annotated[PageQuery, Query()], api: ApiDep, who: Viewer
) -> Page[DocumentExecution]:
    found = await _operations(api).executions(before_id=query.before_id, limit=query.limit + 1)
    more = str(found[query.limit - 1].id) if len(found) > query.limit else None
    return Page(items=found[: query.limit], next=more)


@routes.get("/executions/{execution_id}", summary="Show an execution")
async def show(execution_id: Id, api: ApiDep, who: Viewer) -> DocumentExecution:
    return await _operations(api).execution(execution_id)


@routes.get(
    "/executions/{execution_id}/documents", summary="List documents of an execution, newest first"
)
async def documents(
    execution_id: Id, query: Annotated[DocumentQuery, Query()], api: ApiDep, who: Viewer
) -> Page[DocumentResult]:
    rows = await _operations(api).documents(
        execution_id,
        statuses=query.statuses,
        codigo=query.codigo,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    more = str(rows[query.limit - 1].id) if len(rows) > query.limit else None
    return Page(items=rows[: query.limit], next=more)


def _operations(api: Api) -> DocumentOperations:
    return DocumentOperations(api.regente)


def _document(file: UploadFile, max_bytes: int) -> NewDocument:
    size_bytes = file.size or 0
    return NewDocument(
        file.filename or "", size_bytes, file.file.read if size_bytes <= max_bytes else None
    )


async def _submitted(api: Api, execution_id: int, note: AuditNoteDep) -> DocumentExecution:
    execution = await _operations(api).execution(execution_id)
    after = {"documents": execution.total, "project": execution.projeto, "source": execution.origem}
    note.about({"execution_id": execution_id}, after=after)
    return execution
