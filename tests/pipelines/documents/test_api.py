"""Documents over HTTP: uploads, folders, projects, and the specification's endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.models import ExecutionStatus
from regente.pipelines.documents.standins.openrouter import ChatFault, OpenRouter
from tests.api.conftest import Served, body_of, served
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.environment import Environment, stalled, watchdog

EXECUTIONS = "/api/documents/executions"
LAST_ERROR = (
    b"INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint) "
    b"SELECT id, 1, 'documents', 'throttled', 'HTTP_429', 'slow down', '' FROM regente.tasks "
    b"WHERE batch_id = %s"
)


@pytest.fixture
async def api(app: Regente) -> AsyncIterator[Served]:
    async with served(app) as found:
        yield found


def files(**contents: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("files", (name.replace("__", "."), content)) for name, content in contents.items()]


async def test_an_upload_is_classified_from_the_database(
    env: Environment, api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W4: contents are stored until their documents are done; a too large one is PULADO."""
    monkeypatch.setenv("REGENTE_DOCUMENTS_MAX_FILE_MB", "1")
    sent = files(
        a__pdf=pdfs.text_pdf("um contrato"),
        b__txt="uma decisão".encode(),
        big__txt=b"x" * (2**20 + 1),
        none__txt=b"",
    )
    made = body_of(await api.operator.post(EXECUTIONS, files=sent, data={"name": "lote 1"}), 201)
    assert (made["nome"], made["total"], made["status"], made["origem"]) == (
        "lote 1",
        4,
        "PENDENTE",
        "upload",
    )
    assert (await env.sql(b"SELECT count(*) FROM regente.document_contents")) == [(3,)]
    await env.run(made["id"])
    shown = body_of(await api.viewer.get(f"{EXECUTIONS}/{made['id']}"))
    assert (shown["status"], shown["progresso_pct"], shown["criado_por"]) == (
        "CONCLUIDO",
        100.0,
        "the-operator",
    )
    page = body_of(
        await api.viewer.get(f"{EXECUTIONS}/{made['id']}/documents", params={"limit": 3})
    )
    rest = body_of(
        await api.viewer.get(
            f"{EXECUTIONS}/{made['id']}/documents", params={"cursor": page["next"]}
        )
    )
    found = {one["codigo"]: one for one in page["items"] + rest["items"]}
    assert {
        name: (one["status"], one["categoria"] or one["pulado_codigo"])
        for name, one in found.items()
    } == {
        "a.pdf": ("CONCLUIDO", "contrato"),
        "b.txt": ("CONCLUIDO", "decisão"),
        "big.txt": ("PULADO", "TOO_LARGE"),
        "none.txt": ("PULADO", "EMPTY"),
    }
    # Contents of finished documents are deleted, those that may be retried are kept.
    assert (await env.sql(b"SELECT count(*) FROM regente.document_contents")) == [(1,)]
    only = body_of(
        await api.viewer.get(
            f"{EXECUTIONS}/{made['id']}/documents", params={"statuses": ["PULADO"]}
        )
    )
    assert {one["codigo"] for one in only["items"]} == {"big.txt", "none.txt"}
    assert [one["id"] for one in body_of(await api.viewer.get(EXECUTIONS))["items"]] == [made["id"]]


async def test_an_invalid_upload_is_refused_and_stores_nothing(
    env: Environment, api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F15: with a clear error, and no execution."""
    monkeypatch.setenv("REGENTE_DOCUMENTS_UPLOAD_MB", "1")
    one = files(a__txt=b"um contrato")
    refused: list[tuple[int, str, dict[str, Any]]] = [
        (422, "INVALID_INPUT", {"json": {}}),
        (422, "INVALID_INPUT", {"files": [("other", ("a.txt", b"x"))]}),
        (422, "INVALID_INPUT", {"files": one * 2}),
        (422, "INVALID_INPUT", {"files": [("files", ("a" * 500, b"x"))]}),
        (422, "UNKNOWN_PROJECT", {"files": one, "data": {"project": "nothing"}}),
        (422, "INVALID_INPUT", {"files": one, "data": {"name": "n" * 300}}),
        (413, "BODY_TOO_LARGE", {"files": files(a__txt=b"x" * (2**20 + 1))}),
        (400, "BAD_REQUEST", {"content": b"x", "headers": {"content-type": "multipart/form-data"}}),
        (
            422,
            "INVALID_INPUT",
            {
                "content": b"--x\r\nnonsense",
                "headers": {"content-type": "multipart/form-data; boundary=x"},
            },
        ),
        (
            400,
            "BAD_REQUEST",
            {"files": [("files", (f"{number}.txt", b"x")) for number in range(2_001)]},
        ),
    ]
    for status, code, sent in refused:
        assert body_of(await api.operator.post(EXECUTIONS, **sent), status)["code"] == code, sent
    assert await env.operations.executions() == []
    assert await env.sql(b"SELECT count(*) FROM regente.tasks") == [(0,)]
    assert (await api.viewer.post(EXECUTIONS, files=one)).status_code == 403
    assert (await api.anonymous.post(EXECUTIONS, files=one)).status_code == 401


async def test_a_name_is_taken_once(env: Environment, api: Served) -> None:
    """W9: an execution is never extended by mistake; of two at once one is created."""
    both = await asyncio.gather(
        *(
            api.operator.post(EXECUTIONS, files=files(a__txt=b"um contrato"), data={"name": "lote"})
            for _ in range(2)
        )
    )
    assert sorted(one.status_code for one in both) == [201, 409]
    assert len(await env.operations.executions()) == 1


async def test_a_folder_is_for_admins_and_only_below_the_root(
    env: Environment, api: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Server files are not read unless the folder is configured."""
    env.write("inbox/a.txt", "um contrato")
    path, body = f"{EXECUTIONS}/folder", {"folder": "inbox"}
    assert body_of(await api.admin.post(path, json=body), 422)["code"] == "FOLDERS_CLOSED"
    monkeypatch.setenv("REGENTE_DOCUMENTS_ROOT", str(env.folder))
    assert (await api.operator.post(path, json=body)).status_code == 403
    for outside in ("..", "/etc", "../../etc", "inbox/../.."):
        assert (
            body_of(await api.admin.post(path, json={"folder": outside}), 422)["code"]
            == "INVALID_INPUT"
        )
    assert (
        body_of(await api.admin.post(path, json={"folder": "nothing"}), 422)["code"]
        == "INVALID_INPUT"
    )
    made = body_of(await api.admin.post(path, json=body), 201)
    assert (made["origem"], made["total"]) == ("folder", 1)
    assert (await env.run(made["id"])).status == "CONCLUIDO"


async def test_projects_are_read_by_all_and_changed_by_admins(
    env: Environment, api: Served
) -> None:
    """W3: limits and classes per project."""
    fields = {
        "classes": [{"name": "sim"}, {"name": "não"}],
        "max_retries_execucao": 5,
        "max_retries_documento": 0,
    }
    assert (await api.operator.put("/api/documents/projects/p1", json=fields)).status_code == 403
    made = body_of(await api.admin.put("/api/documents/projects/p1", json=fields))
    assert (made["name"], made["max_retries_execucao"], made["max_retries_documento"]) == (
        "p1",
        5,
        0,
    )
    wrong: list[dict[str, Any]] = [
        {"classes": [{"name": "sim"}]},
        {"classes": [{"name": "sim"}, {"name": "SIM"}]},
        {**fields, "max_retries_documento": 101},
        {**fields, "more": 1},
        {"classes": [{"name": "a\x00"}, {"name": "b"}]},
    ]
    for one in wrong:
        assert (await api.admin.put("/api/documents/projects/p1", json=one)).status_code == 422, one
    assert {one["name"] for one in body_of(await api.viewer.get("/api/documents/projects"))} == {
        "default",
        "p1",
    }
    default = next(
        one
        for one in body_of(await api.viewer.get("/api/documents/projects"))
        if one["name"] == "default"
    )
    assert (default["max_retries_execucao"], default["max_retries_documento"]) == (3, 2)


async def test_a_stalled_execution_says_why_and_where_and_one_of_three_resumes_it(
    env: Environment, api: Served, registry: Registry, chat: OpenRouter
) -> None:
    """W1, W2, W5, W7: /execucoes, in the words of the specification."""
    chat.break_with(ChatFault.UNKNOWN_CLASS, contains="bad")
    env.write("1.txt", "a bad contrato")
    env.write("2.txt", "um contrato")
    env.write("3.png", b"\x89PNG\r\n\x1a\n")
    execution = await env.run()
    status = body_of(await api.viewer.get(f"/execucoes/{execution.id}/status-detalhado"))
    assert (status["status"], status["motivo"], status["parado_em"]) == ("CONCLUIDO", None, None)
    assert status["documentos"] == {
        "PENDENTE": 0,
        "PROCESSANDO": 0,
        "CONCLUIDO": 1,
        "ERRO": 1,
        "PULADO": 1,
        "CANCELADO": 0,
    }
    assert (status["erros"], status["max_retries"], status["timeout_segundos"]) == (
        {"ANSWER_UNKNOWN_CLASS": 1},
        3,
        300.0,
    )
    assert (status["rota_origem"], status["ultimo_codigo_processado"]) == (
        "/classificador/",
        "1.txt",
    )
    errors = body_of(await api.viewer.get(f"/execucoes/{execution.id}/erros"))
    (error,) = errors["itens"]
    assert (errors["total"], error["codigo"], error["status"], error["tentativas"]) == (
        1,
        "1.txt",
        "ERRO",
        3,
    )
    assert (error["erro_codigo"], error["etapa"]) == ("ANSWER_UNKNOWN_CLASS", "CLASSIFIED")
    assert "poem" in error["erro_mensagem"]
    assert "WrongAnswer" in error["erro_stack"]
    assert error["ultimo_erro_em"] is not None
    redone = body_of(await api.operator.post(f"/execucoes/{execution.id}/reprocessar-erros"))
    assert redone == {"reprocessados": 1, "ids": [error["id"]]}
    await env.operations.execution(execution.id)
    await stalled(env, registry, execution.id)
    status = body_of(await api.viewer.get(f"/execucoes/{execution.id}/status-detalhado"))
    assert status["status"] == "TRAVADO"
    assert "Nenhum runner ativo atende o pipeline documents" in status["motivo"]
    assert (status["parado_em"]["codigo"], status["parado_em"]["etapa"]) == (
        "1.txt",
        "TEXT_EXTRACTED",
    )
    answers = await asyncio.gather(
        *(api.operator.post(f"/execucoes/{execution.id}/retomar") for _ in range(3))
    )
    told = [body_of(one) for one in answers]
    assert sorted(one["retomada"] for one in told) == [False, False, True]
    nothing = "a execução está EM_ANDAMENTO: não há o que retomar"
    assert sorted(one["motivo"] for one in told) == [nothing, nothing, "retomada"]
    assert {(one["status"], one["tentativas_retry"]) for one in told} == {("EM_ANDAMENTO", 1)}
    chat.faults.clear()
    assert (await env.run(execution.id)).status == "CONCLUIDO"
    assert body_of(await api.viewer.get(f"/execucoes/{execution.id}/erros"))["total"] == 0


async def test_the_reason_of_a_stall_stays_after_the_last_resume(
    env: Environment, api: Served, registry: Registry
) -> None:
    """W2, W5: ERRO with the document that the execution waited for, its step and its last error,
    in Portuguese, and in SQL."""
    await env.operations.put_project(
        name="p", classes=[{"name": "a"}, {"name": "b"}], max_retries_execucao=0
    )
    env.write("1.txt", "um contrato")
    execution = await env.submit(project="p")
    await env.serve_in_vain()
    await env.sql(LAST_ERROR, execution)
    await env.age(execution)
    async with watchdog(env.app, registry):
        await env.until(lambda one: one.status is ExecutionStatus.ERRO, execution)
    status = body_of(await api.viewer.get(f"/execucoes/{execution}/status-detalhado"))
    assert status["motivo"].startswith("O documento 1.txt espera na fila desde ")
    assert status["motivo"].endswith("Último erro: HTTP_429: slow down.")
    assert status["parado_em"]["codigo"] == "1.txt"
    assert status["parado_em"]["erro_codigo"] == "HTTP_429"
    stall = status["ultimo_travamento"]
    assert (stall["motivo"], stall["parado_em"]) == (status["motivo"], status["parado_em"])
    columns = (
        b"SELECT status, tentativas_retry, max_retries, rota_origem, travado_motivo, "
        b"travado_codigo, travado_erro_codigo FROM regente.execucoes_classificacao WHERE id = %s"
    )
    assert await env.sql(columns, execution) == [
        ("ERRO", 0, 0, "/classificador/", "no_progress", "1.txt", "HTTP_429")
    ]
    redone = body_of(await api.operator.post(f"/execucoes/{execution}/reprocessar-erros"))
    assert redone["reprocessados"] == 1
    status = body_of(await api.viewer.get(f"/execucoes/{execution}/status-detalhado"))
    assert (status["status"], status["motivo"], status["parado_em"]) == ("EM_ANDAMENTO", None, None)
    assert status["ultimo_travamento"] == stall
