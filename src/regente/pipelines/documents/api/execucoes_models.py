"""Wire models of `/execucoes`, with the specification's field names."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from regente.api.models.basics import SomeId, Strict, Word
from regente.pipelines.documents.models import ExecutionStatus
from regente.pipelines.documents.read_models import DocumentCounts


class StoppedAt(BaseModel):
    """The task that a stalled execution waited for."""

    id: int
    codigo: str
    etapa: str | None = Field(description="The last step that it finished.")
    desde: datetime | None = Field(description="Its last heartbeat.")
    runner: str | None
    erro_codigo: str | None = Field(description="Its last failure.")
    erro_mensagem: str | None
    erro_em: datetime | None


class LastStall(BaseModel):
    """Why and where the execution stalled last."""

    em: datetime
    motivo: str
    parado_em: StoppedAt | None


_STALL: dict[str, JsonValue] = {
    "motivo": "O documento 0081.pdf está parado na etapa TEXT_EXTRACTED no runner host:71, sem "
    "progresso desde 30/01/2026 10:00:00 UTC. Último erro: HTTP_TIMEOUT: no answer in time.",
    "parado_em": {
        "id": 8081,
        "codigo": "0081.pdf",
        "etapa": "TEXT_EXTRACTED",
        "desde": "2026-01-30T10:00:00Z",
        "runner": "host:71",
        "erro_codigo": "HTTP_TIMEOUT",
        "erro_mensagem": "no answer in time",
        "erro_em": "2026-01-30T09:59:00Z",
    },
}


class Execution(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 12,
                "nome": "lote-12",
                "status": "TRAVADO",
                "total": 2000,
                "progresso_pct": 4.0,
                "documentos": {
                    "PENDENTE": 1919,
                    "PROCESSANDO": 1,
                    "CONCLUIDO": 79,
                    "ERRO": 1,
                    "PULADO": 0,
                    "CANCELADO": 0,
                },
                "ultimo_heartbeat": "2026-01-30T10:00:00Z",
                "ultimo_codigo_processado": "0080.pdf",
                "tentativas_retry": 0,
                "max_retries": 3,
                "timeout_segundos": 300.0,
                "rota_origem": "/classificador/",
                "erros": {"HTTP_502": 1},
                **_STALL,
                "ultimo_travamento": {"em": "2026-01-30T10:05:00Z", **_STALL},
                "eta_segundos": None,
                "criado_em": "2026-01-30T09:55:00Z",
                "concluido_em": None,
            }
        }
    )

    id: int
    nome: str
    status: ExecutionStatus
    total: int
    documentos: DocumentCounts
    progresso_pct: float
    ultimo_heartbeat: datetime | None
    ultimo_codigo_processado: str | None
    tentativas_retry: int
    max_retries: int
    timeout_segundos: float = Field(description="Time without progress until it is TRAVADO.")
    rota_origem: str | None
    erros: dict[str, int] = Field(description="Failed documents by code.")
    motivo: str | None = Field(None, description="Why it is TRAVADO, or ERRO.")
    parado_em: StoppedAt | None = Field(None, description="The task that it waited for then.")
    ultimo_travamento: LastStall | None = Field(
        None, description="Its last stall, also after it went on."
    )
    eta_segundos: float | None
    criado_em: datetime
    concluido_em: datetime | None


class DocumentError(BaseModel):
    id: int
    codigo: str = Field(
        description="The document's name, or the task's key or id when it has none."
    )
    status: Literal["ERRO"] = "ERRO"
    tentativas: int
    erro_codigo: str | None
    erro_mensagem: str | None
    erro_stack: str | None
    etapa: str | None
    ultimo_erro_em: datetime | None


class DocumentErrors(BaseModel):
    total: int
    itens: list[DocumentError]
    proximo: str | None = Field(description="The cursor of the next page.")


class ResumedExecution(BaseModel):
    retomada: bool
    motivo: str
    documentos_liberados: int
    tentativas_retry: int
    status: ExecutionStatus


class ReprocessErrors(Strict):
    codigos: list[Word] | None = Field(None, max_length=100, description="Only these error codes.")
    ids: list[SomeId] | None = Field(None, max_length=10_000, fail_fast=True)


class ReprocessedErrors(BaseModel):
    reprocessados: int
    ids: list[int]
