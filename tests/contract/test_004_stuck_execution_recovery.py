"""The document 004-stuck-execution-recovery.md, section by section.

Where we do something else, docs/deviations.md says why (Executions). The browser's part (§6) is in
tests/e2e/test_pipelines.py and console/src/live/useSilence.test.tsx.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regente import Regente
from regente.api.config import ApiConfig
from regente.api.stream.config import StreamConfig
from regente.engine.pipeline import Registry
from regente.pipelines.documents.models import (
    DOCUMENT_SECONDS,
    MAX_DOCUMENTS,
    STALL_SECONDS,
    DocumentStatus,
    ExecutionStatus,
    Project,
)
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import BACKOFF, register_documents
from regente.pipelines.documents.standins.openrouter import ChatFault, OpenRouter
from regente.services.sandbox import Sandbox
from tests.api.conftest import Served, body_of, served
from tests.pipelines.documents.environment import Environment, stalled, watchdog
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

CONSOLE = Path(__file__).parents[2] / "src" / "regente" / "pipelines" / "documents" / "console"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, seed=1, standins=[OpenRouter(1)]) as place:
        yield place


@pytest.fixture
def chat(sandbox: Sandbox) -> OpenRouter:
    (found,) = sandbox.standins
    assert isinstance(found, OpenRouter)
    return found


@pytest.fixture
async def env(
    app: Regente, registry: Registry, sandbox: Sandbox, tmp_path: Path
) -> AsyncIterator[Environment]:
    pipelines = register_documents(registry, app, DocumentSettings(), sandbox.url)
    folder = tmp_path / "files"
    folder.mkdir()
    yield Environment(app, DocumentOperations(app), folder)
    await pipelines.close()


@pytest.fixture
async def api(app: Regente) -> AsyncIterator[Served]:
    async with served(app) as found:
        yield found


async def status_of(api: Served, execution: int) -> dict[str, Any]:
    found: dict[str, Any] = body_of(
        await api.viewer.get(f"/execucoes/{execution}/status-detalhado")
    )
    return found


# Context


async def test_0_the_cause_of_a_stall_is_recorded(
    env: Environment, api: Served, registry: Registry, chat: OpenRouter
) -> None:
    """Context: "não há registro do erro específico que causou o travamento"; W2, W5."""
    chat.break_with(ChatFault.SERVER_ERROR)
    env.write("0080.txt", "um contrato")
    execution = await env.submit()

    async def failed() -> bool:
        return bool(await env.sql(b"SELECT FROM regente.failures"))

    async with runner_in(env.app):
        await eventually_async(failed)
    await env.make_retries_due(execution)
    await stalled(env, registry, execution)
    found = await status_of(api, execution)
    assert (found["parado_em"]["codigo"], found["parado_em"]["etapa"]) == (
        "0080.txt",
        "TEXT_EXTRACTED",
    )
    assert found["parado_em"]["erro_codigo"] == "HTTP_502"
    assert "Último erro: HTTP_502" in found["motivo"]


def test_0_an_execution_has_up_to_2000_files() -> None:
    """Context, W9: tests/pipelines/documents/test_flow.py runs 2,000."""
    assert MAX_DOCUMENTS == 2_000


# 1. Detection of stalls (watchdog)


def test_1_the_timeouts() -> None:
    """§1, W1: 5 minutes without progress, 2 minutes for a document, a keep-alive within 30 s.
    Deviation: every 10 s, so that the console doubts its connection sooner."""
    assert (STALL_SECONDS, DOCUMENT_SECONDS) == (300.0, 120.0)
    assert StreamConfig().heartbeat_seconds == 10.0
    assert StreamConfig().heartbeat_seconds <= 30.0


async def test_1_each_document_moves_the_heartbeat_and_the_last_code(
    env: Environment, api: Served
) -> None:
    """§1, W1: `ultimo_heartbeat`, `ultimo_codigo_processado`."""
    env.write("0001.txt", "um contrato")
    execution = await env.run()
    found = await status_of(api, execution.id)
    assert found["ultimo_codigo_processado"] == "0001.txt"
    assert found["ultimo_heartbeat"] is not None


async def test_1_five_minutes_without_progress_are_a_stall(
    env: Environment, api: Served, registry: Registry
) -> None:
    """§1, W1: EM_ANDAMENTO with a heartbeat older than 5 minutes."""
    env.write("1.txt", "um contrato")
    execution = await env.submit()
    await stalled(env, registry, execution)
    assert (await status_of(api, execution))["status"] == "TRAVADO"


async def test_1_the_stream_sends_a_keepalive(app: Regente) -> None:
    """§1, W1: a named event, which reaches the listeners of an EventSource (a comment does not),
    again and again while nothing happens."""
    often = ApiConfig(stream=StreamConfig(heartbeat_seconds=0.05))
    beats = 0
    async with served(app, often) as api, api.viewer.stream("GET", "/api/stream") as response:
        async for line in response.aiter_lines():
            beats += line == "event: heartbeat"
            if beats == 4:
                break
    assert beats == 4


# 2. States


def test_2_the_states() -> None:
    """§2, W2. Deviation: CANCELADO too, for what a person ends."""
    named = {"PENDENTE", "EM_ANDAMENTO", "CONCLUIDO", "TRAVADO", "ERRO"}
    assert {*ExecutionStatus} == named | {"CANCELADO"}


async def test_2_stalled_goes_on_by_a_resume_and_ends_after_the_last_one(
    env: Environment, api: Served, registry: Registry
) -> None:
    """§2, W2, W3: TRAVADO → EM_ANDAMENTO by retomar; → ERRO after max_retries, and the reason
    stays."""
    await env.operations.put_project(
        name="p", classes=[{"name": "a"}, {"name": "b"}], max_retries_execucao=1
    )
    env.write("1.txt", "um contrato")
    execution = await env.submit(project="p")
    await env.serve_in_vain()
    await stalled(env, registry, execution)
    assert body_of(await api.operator.post(f"/execucoes/{execution}/retomar"))["retomada"]
    assert (await status_of(api, execution))["status"] == "EM_ANDAMENTO"
    await env.age(execution)
    async with watchdog(env.app, registry):
        await env.until(lambda one: one.status is ExecutionStatus.ERRO, execution)
    found = await status_of(api, execution)
    assert (found["status"], found["tentativas_retry"], found["max_retries"]) == ("ERRO", 1, 1)
    assert "1.txt" in found["motivo"]


# 3. Retry policy


def test_3_the_limits_and_the_backoff() -> None:
    """§3, W3: 3 and 2, per project; 5 s, doubled, not configurable."""
    project = Project(name="p", classes=({"name": "a"}, {"name": "b"}))
    assert (project.max_retries_execucao, project.max_retries_documento) == (3, 2)
    assert [BACKOFF.delay_seconds(attempt) for attempt in (1, 2)] == [5.0, 10.0]


async def test_3_a_document_is_tried_again_twice(
    env: Environment, api: Served, chat: OpenRouter
) -> None:
    """§3, W3: then ERRO; rule 1."""
    chat.break_with(ChatFault.UNKNOWN_CLASS, contains="bad")
    env.write("1.txt", "a bad contrato")
    execution = await env.run()
    (row,) = await env.operations.documents(execution.id)
    assert (row.status, row.tentativas) == ("ERRO", 3)


# 4. State of each document


async def test_4_the_state_of_each_document(env: Environment, chat: OpenRouter) -> None:
    """§4, W4: status, tentativas, erro_mensagem, erro_stack, ultimo_erro_em."""
    assert {*DocumentStatus} == {
        "PENDENTE",
        "PROCESSANDO",
        "CONCLUIDO",
        "ERRO",
        "PULADO",
        "CANCELADO",
    }
    chat.break_with(ChatFault.UNKNOWN_CLASS, contains="bad")
    env.write("1.txt", "a bad contrato")
    env.write("2.txt", "")
    execution = await env.run()
    columns = (
        b"SELECT codigo, status, tentativas > 0, erro_mensagem IS NOT NULL, "
        b"erro_stack IS NOT NULL, ultimo_erro_em IS NOT NULL FROM regente.resultados_classificacao "
        b"WHERE execucao_id = %s ORDER BY codigo"
    )
    assert await env.sql(columns, execution.id) == [
        ("1.txt", "ERRO", True, True, True, True),
        ("2.txt", "PULADO", True, False, False, False),
    ]


# 5. Endpoints


async def test_5_the_four_endpoints(env: Environment, api: Served, chat: OpenRouter) -> None:
    """§5, W5: status with heartbeat, errors and route; errors with details; retomar, idempotent;
    reprocessar-erros, only what failed."""
    chat.break_with(ChatFault.UNKNOWN_CLASS, contains="bad")
    env.write("1.txt", "a bad contrato")
    env.write("2.txt", "um contrato")
    execution = (await env.run()).id
    found = await status_of(api, execution)
    assert (found["rota_origem"], found["erros"]) == (
        "/classificador/",
        {"ANSWER_UNKNOWN_CLASS": 1},
    )
    errors = body_of(await api.viewer.get(f"/execucoes/{execution}/erros"))
    assert [one["codigo"] for one in errors["itens"]] == ["1.txt"]
    answer = body_of(await api.operator.post(f"/execucoes/{execution}/retomar"))
    assert (answer["retomada"], answer["motivo"]) == (
        False,
        "a execução está CONCLUIDO: não há o que retomar",
    )
    done = body_of(await api.operator.post(f"/execucoes/{execution}/reprocessar-erros"))
    assert done["reprocessados"] == 1
    chat.faults.clear()
    assert (await env.run(execution)).status == "CONCLUIDO"


# 6. Frontend


def test_6_the_words_and_the_warning_of_the_page() -> None:
    """§6, W6: 60 s without events (heartbeats do not count), both buttons, the affected route."""
    page = (CONSOLE / "Documents.tsx").read_text()
    root = Path(__file__).parents[2] / "console" / "src"
    assert "SILENT_EVENTS_MS = 60_000" in (root / "live" / "useSilence.ts").read_text()
    assert "<SilenceWarning" in page
    assert "data.rota_origem" in page
    words = (root / "i18n" / "pt-BR" / "engine.ts").read_text()
    assert '"Continuar de onde parou"' in words
    assert '"Reprocessar apenas erros"' in words


# Consequences and risks


async def test_7_of_two_resumes_at_once_one_wins(
    env: Environment, api: Served, registry: Registry
) -> None:
    """Risks, W7: a lock on the row, and the status."""
    env.write("1.txt", "um contrato")
    execution = await env.submit()
    await stalled(env, registry, execution)
    answers = await asyncio.gather(
        *(api.operator.post(f"/execucoes/{execution}/retomar") for _ in range(2))
    )
    assert sorted(body_of(one)["retomada"] for one in answers) == [False, True]


async def test_7_progress_is_never_lost(env: Environment, registry: Registry) -> None:
    """Consequences, W2: what is done stays done when the execution goes on."""
    env.write("1.txt", "um contrato")
    execution = await env.submit()
    await stalled(env, registry, execution)
    await env.operations.resume(execution)
    ended = await env.run(execution)
    assert (ended.status, ended.documentos.CONCLUIDO, ended.tentativas_retry) == ("CONCLUIDO", 1, 1)


# Migration


async def test_8_the_columns_of_the_migration_exist(env: Environment) -> None:
    """Migration, W5: by their tables' names, as views over the engine's."""
    names = (
        b"SELECT column_name::text FROM information_schema.columns "
        b"WHERE table_schema = 'regente' AND table_name = %s"
    )
    executions = {name for (name,) in await env.sql(names, "execucoes_classificacao")}
    assert executions >= {
        "ultimo_heartbeat",
        "ultimo_codigo_processado",
        "tentativas_retry",
        "max_retries",
    }
    results = {name for (name,) in await env.sql(names, "resultados_classificacao")}
    assert results >= {"tentativas", "erro_stack", "ultimo_erro_em"}
