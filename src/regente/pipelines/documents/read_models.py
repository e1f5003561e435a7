"""What people see of executions, in the words of their specification."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from regente.pipelines.documents.models import ExecutionStatus


class DocumentCounts(BaseModel):
    PENDENTE: int
    PROCESSANDO: int
    CONCLUIDO: int
    ERRO: int
    PULADO: int
    CANCELADO: int


class DocumentExecution(BaseModel):
    id: int
    nome: str
    projeto: str
    status: ExecutionStatus
    origem: str = Field(description="folder or upload", examples=["upload"])
    pasta: str | None
    total: int
    documentos: DocumentCounts
    progresso_pct: float
    tentativas_retry: int
    max_retries: int
    eta_segundos: float | None
    criado_por: str | None
    criado_em: datetime
    ultimo_heartbeat: datetime
    concluido_em: datetime | None
