"""`/execucoes/…`: the endpoints of the documents' specification, for batches of any pipeline."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Operator, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.limits import Id
from regente.api.models.basics import PageQuery
from regente.api.models.tasks import Reprocess
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.routes import batches
from regente.api.state import Api, ApiDep
from regente.engine.models import Stall
from regente.pipelines.documents.api.execucoes_models import (
    DocumentError,
    DocumentErrors,
    Execution,
    LastStall,
    ReprocessedErrors,
    ReprocessErrors,
    ResumedExecution,
    StoppedAt,
)
from regente.pipelines.documents.models import ExecutionStatus
from regente.pipelines.documents.queries import EXECUCOES
from regente.pipelines.documents.read_models import DocumentCounts
from regente.pipelines.documents.stall_reasons import stall_reason

routes = resource("/execucoes", "execucoes")


@routes.get(
    "/{execution_id}/status-detalhado", summary="Status com heartbeat, erros, rota de origem"
)
async def status_detalhado(execution_id: Id, api: ApiDep, who: Viewer) -> Execution:
    """De uma execução `TRAVADO` ou `ERRO`, também o motivo e onde parou."""
    found = await batches.detail(api, execution_id)
    heartbeat = await QUERIES.fetch_one(api.database, "batch_heartbeat", batch_id=execution_id)
    last = await EXECUCOES.fetch_one(api.database, "execution_last", batch_id=execution_id)
    status = ExecutionStatus.of_batch(found.status)
    stall = await _last_stall(api, found.stall)
    stopped = stall if status in (ExecutionStatus.TRAVADO, ExecutionStatus.ERRO) else None
    ended = found.completed + found.failed + found.canceled + found.skipped
    documents = DocumentCounts(
        PENDENTE=found.draft + found.queued,
        PROCESSANDO=found.running,
        CONCLUIDO=found.completed,
        ERRO=found.failed,
        PULADO=found.skipped,
        CANCELADO=found.canceled,
    )
    return Execution(
        id=found.id,
        nome=found.name,
        status=status,
        total=found.total,
        documentos=documents,
        progresso_pct=round(100 * ended / found.total, 2) if found.total else 0.0,
        ultimo_heartbeat=heartbeat["at"] if heartbeat else None,
        tentativas_retry=found.resumes,
        max_retries=found.max_resumes,
        ultimo_codigo_processado=last["codigo"] if last else None,
        timeout_segundos=found.stall_after_seconds,
        rota_origem=found.route,
        eta_segundos=found.eta_seconds,
        erros={one.code or "DESCONHECIDO": one.tasks for one in found.errors},
        criado_em=found.created_at,
        concluido_em=found.finished_at,
        motivo=stopped.motivo if stopped else None,
        parado_em=stopped.parado_em if stopped else None,
        ultimo_travamento=stall,
    )


@routes.get("/{execution_id}/erros", summary="Documentos com erro e detalhes")
async def erros(
    execution_id: Id, query: Annotated[PageQuery, Query()], api: ApiDep, who: Viewer
) -> DocumentErrors:
    batch = await api.regente.batch(execution_id)
    rows = await EXECUCOES.fetch_all(
        api.database,
        "execution_errors",
        batch_id=execution_id,
        before_id=query.before_id,
        limit=query.limit + 1,
    )
    items = [DocumentError(**row) for row in rows[: query.limit]]
    more = str(items[-1].id) if len(rows) > query.limit else None
    return DocumentErrors(total=batch.failed, itens=items, proximo=more)


@routes.post("/{execution_id}/retomar", summary="Retoma de onde parou (idempotente)")
async def retomar(
    execution_id: Id, api: ApiDep, who: Operator, note: AuditNoteDep
) -> ResumedExecution:
    """De duas chamadas simultâneas, uma retoma e a outra não altera nada."""
    done = await batches.resume(execution_id, api, who, note)
    after = await api.regente.batch(execution_id)
    status = ExecutionStatus.of_batch(after.status)
    nothing = f"a execução está {status}: não há o que retomar"
    return ResumedExecution(
        retomada=done.resumed,
        motivo="retomada" if done.resumed else nothing,
        documentos_liberados=done.released,
        tentativas_retry=after.resumes,
        status=status,
    )


@routes.post("/{execution_id}/reprocessar-erros", summary="Reprocessa apenas itens com erro")
async def reprocessar_erros(
    execution_id: Id,
    api: ApiDep,
    who: Operator,
    note: AuditNoteDep,
    body: ReprocessErrors | None = None,
) -> ReprocessedErrors:
    chosen = body or ReprocessErrors()
    done = await batches.reprocess(
        execution_id, api, who, note, Reprocess(codes=chosen.codigos, ids=chosen.ids)
    )
    return ReprocessedErrors(reprocessados=done.count, ids=done.ids)


async def _last_stall(api: Api, stall: Stall | None) -> LastStall | None:
    if stall is None:
        return None
    if stall.task_id is None:
        return LastStall(em=stall.at, motivo=stall_reason(stall, None), parado_em=None)
    row = await EXECUCOES.fetch_one(api.database, "document_code", task_id=stall.task_id)
    codigo = row["codigo"] if row else stall.key or str(stall.task_id)
    stopped = StoppedAt(
        id=stall.task_id,
        codigo=codigo,
        etapa=stall.step,
        desde=stall.since,
        runner=stall.runner,
        erro_codigo=stall.error_code,
        erro_mensagem=stall.error_message,
        erro_em=stall.error_at,
    )
    return LastStall(em=stall.at, motivo=stall_reason(stall, codigo), parado_em=stopped)
