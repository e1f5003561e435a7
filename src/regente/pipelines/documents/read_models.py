"""What people see of executions and documents, in the words of their specification."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from regente.pipelines.documents.models import DocumentStatus, ExecutionStatus


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


class DocumentResult(BaseModel):
    """A document with the specification's field names (`ResultadoClassificacao`)."""

    id: int
    execucao_id: int
    codigo: str
    status: DocumentStatus
    tentativas: int
    categoria: str | None
    confianca: float | None
    justificativa: str | None
    pulado_codigo: str | None
    pulado_motivo: str | None = Field(description="Why it is PULADO.")
    erro_codigo: str | None
    erro_mensagem: str | None
    erro_stack: str | None
    erro_etapa: str | None
    ultimo_erro_em: datetime | None
    etapa: str | None
    concluido_em: datetime | None
    tamanho_bytes: int
    tipo: str | None
    sha256: str | None
    paginas: int | None
    caracteres: int | None
    modelo: str | None
    ultima_resposta: str | None = Field(description="The last unusable answer.")
