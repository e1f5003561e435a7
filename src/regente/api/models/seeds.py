"""The answers of the endpoints that the original specifications name, with their words."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regente.api.models.basics import SomeId, Strict, Word

ExecutionState = Literal["PENDENTE", "EM_ANDAMENTO", "CONCLUIDO", "TRAVADO", "ERRO", "CANCELADO"]
QuoteState = Literal["PENDING", "PROCESSING", "STUCK", "DONE", "ERROR", "CANCELLED"]

EXECUTION_STATES: dict[str, ExecutionState] = {
    "pending": "PENDENTE", "running": "EM_ANDAMENTO", "stalled": "TRAVADO", "completed": "CONCLUIDO", "failed": "ERRO",
    "canceled": "CANCELADO",
}  # fmt: skip
QUOTE_STATES: dict[str, QuoteState] = {
    "pending": "PENDING", "running": "PROCESSING", "stalled": "STUCK", "completed": "DONE", "failed": "ERROR",
    "canceled": "CANCELLED",
}  # fmt: skip


class SystemHealth(BaseModel):
    status: Literal["healthy"] = "healthy"
    database: Literal["ok"] = "ok"
    timestamp: datetime


class ProcessingStats(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "total_processing": 150, "stuck_count": 3, "avg_processing_time_seconds": 45.32,
                "by_checkpoint": {"PRICE_EXTRACTION_PROGRESS": 120, "SHOPPING_SEARCH_DONE": 25, "AI_ANALYSIS_DONE": 5},
            }
        }
    )  # fmt: skip

    total_processing: int
    stuck_count: int
    by_checkpoint: dict[str, int]
    avg_processing_time_seconds: float


class StuckQuote(BaseModel):
    id: int
    pipeline: str
    status: Literal["PROCESSING"] = "PROCESSING"
    processing_checkpoint: str | None
    last_heartbeat: datetime | None
    worker_id: str | None = Field(description="Who is processing it.")
    attempt_number: int
    started_at: datetime | None
    batch_id: int | None


class StuckQuotes(BaseModel):
    count: int
    quotes: list[StuckQuote]


class Recovered(BaseModel):
    recovered: int
    ids: list[int]


class CleanedUp(BaseModel):
    marked_as_error: int
    ids: list[int]


class BatchStatus(BaseModel):
    batch_id: int
    name: str
    status: QuoteState
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    progress_percentage: float
    last_heartbeat: datetime | None
    eta_seconds: float | None
    errors: dict[str, int]


class StartScrape(Strict):
    """A round to scrape. The same `round` twice is one job."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"round": "brasileirao-2025-12", "args": {"league": "brasileirao", "round": 12}}}
    )

    round: Word = Field(description="What it is called.")
    args: dict[str, Any] = Field(default_factory=dict, description="What its pipeline needs to know.")
    pipeline: Word = "rounds"


class StartedScrape(BaseModel):
    job_id: int
    round: str
    pipeline: str
    status: str = Field(examples=["PENDING"])


class RetryFailed(Strict):
    pipeline: Word | None = None
    batch_id: SomeId | None = None
    code: Word | None = None
    ids: list[SomeId] | None = Field(None, min_length=1, max_length=10_000)


class RetriedFailed(BaseModel):
    selected: int
    retried: int
    action_id: int = Field(description="Of more than a few, the rest goes on in the background: GET /api/actions/{id}.")
    status: Literal["running", "completed", "failed"]


class DocumentCounts(BaseModel):
    PENDENTE: int
    PROCESSANDO: int
    CONCLUIDO: int
    ERRO: int
    PULADO: int
    CANCELADO: int


class Execution(BaseModel):
    id: int
    nome: str
    status: ExecutionState
    total: int
    documentos: DocumentCounts
    progresso_pct: float
    ultimo_heartbeat: datetime | None
    ultimo_codigo_processado: str | None
    tentativas_retry: int
    max_retries: int
    timeout_segundos: float = Field(description="After so long without progress it is TRAVADO.")
    rota_origem: str | None
    erros: dict[str, int] = Field(description="Documents with an error, by code.")
    eta_segundos: float | None
    criado_em: datetime
    concluido_em: datetime | None


class DocumentError(BaseModel):
    id: int
    codigo: str = Field(description="The document's key, or the task's id when it has none.")
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
    status: ExecutionState


class ReprocessErrors(Strict):
    codigos: list[Word] | None = Field(None, max_length=100, description="Only these error codes.")
    ids: list[SomeId] | None = Field(None, max_length=10_000)


class ReprocessedErrors(BaseModel):
    reprocessados: int
    ids: list[int]
