"""The models of the documents' pipeline: projects, documents, extracted texts, classifications."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_DOCUMENTS = 2_000
MAX_CODE_CHARACTERS = 400
STALL_SECONDS = 300.0
DOCUMENT_SECONDS = 120.0
ORIGIN = "/classificador/"
"""The route that an execution belongs to, for people."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/]+$")]
Retries = Annotated[int, Field(ge=0, le=100)]


class DocumentStatus(StrEnum):
    PENDENTE = "PENDENTE"
    PROCESSANDO = "PROCESSANDO"
    CONCLUIDO = "CONCLUIDO"
    ERRO = "ERRO"
    PULADO = "PULADO"
    CANCELADO = "CANCELADO"


class ExecutionStatus(StrEnum):
    PENDENTE = "PENDENTE"
    EM_ANDAMENTO = "EM_ANDAMENTO"
    CONCLUIDO = "CONCLUIDO"
    TRAVADO = "TRAVADO"
    ERRO = "ERRO"
    CANCELADO = "CANCELADO"

    @classmethod
    def of_batch(cls, status: str) -> ExecutionStatus:
        return _OF_BATCH[status]


_OF_BATCH = {
    "pending": ExecutionStatus.PENDENTE,
    "running": ExecutionStatus.EM_ANDAMENTO,
    "stalled": ExecutionStatus.TRAVADO,
    "completed": ExecutionStatus.CONCLUIDO,
    "failed": ExecutionStatus.ERRO,
    "canceled": ExecutionStatus.CANCELADO,
}


class DocumentClass(BaseModel):
    """A class of documents."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    name: Name
    description: str = Field("", max_length=500, pattern=r"^[^\x00]*$")


class Project(BaseModel):
    """A project: its classes, and its limits of retries."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "example": {
                "name": "contratos",
                "classes": [{"name": "contrato", "description": "an agreement"}, {"name": "outro"}],
                "instructions": "",
                "model": None,
                "max_retries_execucao": 3,
                "max_retries_documento": 2,
            }
        },
    )

    name: Name
    classes: tuple[DocumentClass, ...] = Field(min_length=2, max_length=100)
    instructions: str = Field("", max_length=4_000, pattern=r"^[^\x00]*$")
    model: str | None = Field(None, min_length=1, max_length=200, pattern=r"^[^\x00]*$")
    max_retries_execucao: Retries = 3
    max_retries_documento: Retries = 2

    @model_validator(mode="after")
    def _each_class_once(self) -> Project:
        names = [one.name.casefold() for one in self.classes]
        if len(names) != len(set(names)):
            raise ValueError("two classes have the same name")
        return self


class DocumentArgs(BaseModel):
    """The arguments of a task, for people. The task finds its document by its own id."""

    model_config = ConfigDict(extra="forbid")

    codigo: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its execution's folder and its project's settings."""

    task_id: int
    execution_id: int
    code: str
    size_bytes: int
    source: Literal["folder", "upload"]
    folder: str | None
    classes: tuple[DocumentClass, ...]
    instructions: str
    model: str | None
    asked: int


class Classification(BaseModel):
    """The answer's schema, without other fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    category: str
    confidence: float = Field(ge=0, le=1)
    rationale: str = Field(max_length=2_000)
