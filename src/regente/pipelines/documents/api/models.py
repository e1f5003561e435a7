"""Wire models of projects, executions and documents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from regente.api.models.basics import PageQuery, Strict
from regente.pipelines.documents.models import (
    DocumentClass,
    DocumentStatus,
    Retries,
)

Title = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")]


class ProjectFields(Strict):
    """A project without its name, which is in the path."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "classes": [
                    {"name": "contrato", "description": "an agreement"},
                    {"name": "outro", "description": ""},
                ],
                "instructions": "",
                "model": None,
                "max_retries_execucao": 3,
                "max_retries_documento": 2,
            }
        }
    )

    classes: list[DocumentClass] = Field(min_length=2, max_length=100)
    instructions: str = Field("", max_length=4_000)
    model: str | None = Field(None, min_length=1, max_length=200)
    max_retries_execucao: Retries = 3
    max_retries_documento: Retries = 2


class FolderExecution(Strict):
    """Files of a folder on the server, which runners can read."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"folder": "inbox/2026-01", "project": "default", "name": "lote-12"}
        }
    )

    folder: str = Field(
        min_length=1,
        max_length=1_000,
        pattern=r"^[^\x00]+$",
        description="Path below REGENTE_DOCUMENTS_ROOT.",
    )
    project: Title = "default"
    name: Title = Field("", description="Name of the execution; if empty, a new one.")


class DocumentQuery(PageQuery):
    statuses: list[DocumentStatus] | None = Field(None, max_length=6)
    codigo: str | None = Field(None, max_length=400)


UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "minItems": 1,
                        },
                        "project": {"type": "string", "default": "default"},
                        "name": {"type": "string", "default": ""},
                    },
                }
            }
        },
    }
}
