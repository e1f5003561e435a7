"""Answers of the chat API: right, wrong, late, none."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.chat import ChatAnswer
from regente.pipelines.documents.classifier import WrongAnswer, checked
from regente.pipelines.documents.models import Document, DocumentClass
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import register_documents
from regente.pipelines.documents.standins.openrouter import ROUTE, ChatFault, OpenRouter
from regente.services.sandbox.sandbox import Sandbox
from tests.pipelines.documents.conftest import with_settings
from tests.pipelines.documents.environment import Environment
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

CLASSES = (DocumentClass(name="contrato"), DocumentClass(name="outro"))
DOCUMENT = Document(1, 1, "a.pdf", 10, "upload", None, CLASSES, "", None, 0)


@pytest.mark.parametrize(
    ("kind", "code", "kept"),
    [
        (ChatFault.NOT_JSON, "ANSWER_NOT_JSON", "It looks like a contract to me."),
        (ChatFault.UNKNOWN_CLASS, "ANSWER_UNKNOWN_CLASS", "poem"),
        (ChatFault.REFUSAL, "ANSWER_REFUSED", "I cannot help with that."),
        (ChatFault.CUT, "ANSWER_CUT", '{"category"'),
        (ChatFault.EMPTY, "ANSWER_EMPTY", ""),
    ],
)
async def test_a_wrong_answer_is_retried_and_recorded(
    env: Environment, chat: OpenRouter, kind: ChatFault, code: str, kept: str
) -> None:
    """W3, W4: three calls (2 retries), each new; then ERRO with the answer in its record."""
    chat.break_with(kind, contains="bad")
    env.write("bad.txt", "a bad contrato")
    env.write("good.txt", "a fine contrato")
    execution = await env.run()
    assert (execution.status, execution.documentos.ERRO) == ("CONCLUIDO", 1)
    found = await env.results(execution.id)
    row = found["bad.txt"]
    assert (row["status"], row["erro_codigo"], row["tentativas"]) == ("ERRO", code, 3)
    assert kept in row["ultima_resposta"]
    assert found["good.txt"]["categoria"] == "contrato"
    assert (len(chat.paid), set(chat.paid.values())) == (4, {1})
    failures = await env.app.failures(row["id"])
    assert [one["details"]["answer"] for one in failures] == [row["ultima_resposta"]] * 3
    assert [one["name"] for one in failures[0]["snapshots"]] == ["answer.txt"]
    waits = await env.sql(
        b"SELECT (details ->> 'delay_seconds')::float FROM regente.events "
        b"WHERE task_id = %s AND event = 'task_retried' ORDER BY id",
        row["id"],
    )
    assert waits == [(5.0,), (10.0,)]


async def test_reprocessing_repeats_only_failed_documents_with_new_calls(
    env: Environment, chat: OpenRouter
) -> None:
    """W5: the provider's idempotency cache does not return the wrong answer again."""
    chat.break_with(ChatFault.UNKNOWN_CLASS, contains="bad")
    env.write("bad.txt", "a bad contrato")
    env.write("good.txt", "a fine contrato")
    execution = await env.run()
    chat.faults.clear()
    asked = chat.calls[ROUTE]
    assert len(await env.operations.reprocess(execution.id)) == 1
    execution = await env.run(execution.id)
    assert execution.documentos.CONCLUIDO == 2
    assert (chat.calls[ROUTE], chat.calls["replayed"]) == (asked + 1, 0)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ChatFault.SERVER_ERROR, "HTTP_502"),
        (ChatFault.BROKEN, "HTTP_PROTOCOL"),
        (ChatFault.ERROR_IN_200, "PROVIDER_502"),
    ],
)
async def test_a_failing_provider_is_tried_again(
    env: Environment, chat: OpenRouter, kind: ChatFault, code: str
) -> None:
    """W3: two failures are retried; the error stays on record."""
    chat.break_with(kind, times=2)
    env.write("a.txt", "um contrato")
    execution = await env.run()
    row = (await env.results(execution.id))["a.txt"]
    assert (row["status"], row["tentativas"], row["erro_codigo"]) == ("CONCLUIDO", 3, code)


async def test_an_answer_that_got_lost_is_paid_for_once(env: Environment, chat: OpenRouter) -> None:
    """I2: the same call under the same key returns the paid answer."""
    chat.break_with(ChatFault.SERVER_ERROR, times=1, lost=True)
    env.write("a.txt", "um contrato")
    execution = await env.run()
    assert execution.documentos.CONCLUIDO == 1
    assert (list(chat.paid.values()), chat.calls["replayed"]) == ([1], 1)


async def test_a_rate_limit_is_waited_out_and_costs_no_attempt(
    env: Environment, chat: OpenRouter
) -> None:
    """W8: ten 429s, more than a document has attempts; all documents are CONCLUIDO."""
    chat.break_with(ChatFault.THROTTLE, times=10, seconds=0.05)
    for number in range(6):
        env.write(f"{number}.txt", f"um contrato {number}")
    execution = await env.run()
    assert execution.documentos.CONCLUIDO == 6
    rows = (await env.results(execution.id)).values()
    assert {row["tentativas"] for row in rows} == {1}
    assert {row["erro_codigo"] for row in rows} == {None}
    assert chat.calls["throttled"] == 10


async def test_a_throttled_document_is_not_overtaken_by_those_behind_it(
    env: Environment, chat: OpenRouter
) -> None:
    """S3, W8: after its Retry-After it is the next, however many documents have not begun."""
    chat.break_with(ChatFault.THROTTLE, contains="the first", times=1, seconds=0.5)
    env.write("0.txt", "the first contrato")
    for number in range(1, 150):
        env.write(f"{number}.txt", f"um contrato {number}")
    execution_id = await env.submit()
    async with runner_in(env.app):
        await env.ended(execution_id, skip_waits=False)
    claims = (
        b"SELECT d.code, e.attempt FROM regente.events e JOIN regente.documents d USING (task_id) "
        b"WHERE e.event = 'task_claimed' AND d.execution_id = %s ORDER BY e.txid, e.id"
    )
    order = await env.sql(claims, execution_id)
    assert len(order) == 151
    begun_later = order[order.index(("0.txt", 2)) :]
    assert len(begun_later) > 75


async def test_a_long_rate_limit_is_waited_out_in_the_queue(
    env: Environment, chat: OpenRouter
) -> None:
    """W1, W8: no slot is held for minutes, one 429 delays all calls, and waiting is no stall."""
    chat.break_with(ChatFault.THROTTLE, seconds=3600)
    for number in range(20):
        env.write(f"{number}.txt", f"um contrato {number}")
    execution_id = await env.submit()
    async with runner_in(env.app):
        await env.until(
            lambda one: one.documentos.PROCESSANDO == 0 and chat.calls["throttled"] > 0,
            execution_id,
        )
        waiting = await env.sql(
            b"SELECT count(*) FROM regente.tasks WHERE batch_id = %s AND status = 'queued' "
            b"AND tries = 0 "
            b"AND run_at > regente.clock() + interval '50 minutes'",
            execution_id,
        )
        assert waiting[0][0] > 0
    assert chat.calls["throttled"] <= 8
    assert (await env.operations.execution(execution_id)).status in (
        "EM_ANDAMENTO",
        "PENDENTE",
    )


@with_settings(api_concurrency=1)
async def test_one_429_holds_back_all_runners(
    env: Environment, chat: OpenRouter, registry: Registry, database_url: str
) -> None:
    """W8, Q2: also those of other processes, until an operator opens the lane."""
    chat.break_with(ChatFault.THROTTLE, times=1, seconds=3600)
    for number in range(20):
        env.write(f"{number}.txt", f"um contrato {number}")
    execution_id = await env.submit()
    async with (
        Regente(database_url, settings=env.app.settings, pipelines=registry) as other,
        runner_in(env.app),
        runner_in(other),
    ):
        busy = b"SELECT count(DISTINCT task_id) FROM regente.failures WHERE code = 'LANE_BUSY'"
        await eventually_async(lambda: _counts(env, busy, 19), within_seconds=60)
        assert chat.calls["throttled"] == 1
        assert chat.calls["answered"] == 0
        [lane] = await env.app.lanes.list(pipeline="documents")
        assert (lane.status, lane.parked_because, lane.concurrency) == ("parked", "throttled", 1)
        await env.app.lanes.open(lane.name)
        execution = await env.ended(execution_id)
    assert (execution.documentos.CONCLUIDO, chat.calls["throttled"]) == (20, 1)


async def _counts(env: Environment, query: bytes, count: int) -> bool:
    return bool((await env.sql(query))[0][0] == count)


async def test_the_key_goes_to_the_api_and_nowhere_else(
    app: Regente,
    registry: Registry,
    sandbox: Sandbox,
    chat: OpenRouter,
    operations: DocumentOperations,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The API repeats a canary in its error; no log, event, failure or snapshot has it."""
    caplog.set_level(logging.DEBUG)
    key = "sk-or-canary-123"
    given = DocumentSettings(api_key=SecretStr(key), api_url=f"{sandbox.url}/openrouter/api/v1")
    registered = register_documents(registry, app, given, "http://127.0.0.1:9")
    chat.break_with(ChatFault.SERVER_ERROR, times=1)
    env = Environment(app, operations, tmp_path)
    env.write("a.txt", "um contrato")
    execution = await env.run(await env.submit())
    await registered.close()
    row = (await env.results(execution.id))["a.txt"]
    assert (row["status"], row["tentativas"]) == ("CONCLUIDO", 2)
    assert "you sent Bearer ***" in row["erro_mensagem"]
    told: list[tuple[object, ...]] = []
    for table in (b"failures", b"events", b"tasks", b"steps"):
        told += await env.sql(b"SELECT one::text FROM regente." + table + b" AS one")
    assert told
    assert key not in str(told)
    assert key not in caplog.text


async def test_faults_can_be_ordered_over_http(sandbox: Sandbox, env: Environment) -> None:
    """As by hand with `regente sandbox`."""
    async with httpx2.AsyncClient(base_url=f"{sandbox.url}/openrouter", trust_env=False) as client:
        ordered = await client.post(
            "/admin/faults", json={"kind": "refusal", "contains": "bad", "times": 1}
        )
        assert ordered.status_code == 201
        env.write("a.txt", "a bad contrato")
        execution = await env.run()
        row = (await env.results(execution.id))["a.txt"]
        assert (row["status"], row["erro_codigo"]) == ("CONCLUIDO", "ANSWER_REFUSED")
        assert (await client.delete("/admin/faults")).status_code == 204
        assert (await client.post("/admin/faults", json={"kind": "nothing"})).status_code == 422


def answer(content: str | None, **more: Any) -> ChatAnswer:
    return ChatAnswer.model_validate(
        {"choices": [{"message": {"content": content}, "finish_reason": "stop", **more}]}
    )


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "ANSWER_EMPTY"),
        (None, "ANSWER_EMPTY"),
        ("[]", "ANSWER_INVALID"),
        ('{"category": "contrato"}', "ANSWER_INVALID"),
        ('{"category": "contrato", "confidence": 2, "rationale": ""}', "ANSWER_INVALID"),
        ('{"category": "contrato", "confidence": "1", "rationale": ""}', "ANSWER_INVALID"),
        (
            '{"category": "contrato", "confidence": 1.0, "rationale": "", "more": 1}',
            "ANSWER_INVALID",
        ),
        ('{"category": "Contrato", "confidence": 1.0, "rationale": ""}', "ANSWER_UNKNOWN_CLASS"),
        ("[" * 5000, "ANSWER_NOT_JSON"),
        ('```json\n{"category": "contrato"}\n```', "ANSWER_NOT_JSON"),
    ],
)
def test_an_incomplete_or_invalid_answer_is_refused(content: str | None, code: str) -> None:
    """F8: for any output of a model."""
    with pytest.raises(WrongAnswer) as caught:
        checked(answer(content), DOCUMENT)
    assert caught.value.code == code


def test_a_valid_answer_is_taken() -> None:
    content = json.dumps({"category": "contrato", "confidence": 1, "rationale": "it says so"})
    assert checked(answer(content), DOCUMENT).category == "contrato"
