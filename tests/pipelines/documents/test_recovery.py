"""Executions that stall: TRAVADO by the watchdog with a reason; resumed, reprocessed or failed."""

from __future__ import annotations

import asyncio

from regente.engine.pipeline import Registry
from regente.pipelines.documents.models import ExecutionStatus
from regente.pipelines.documents.standins.openrouter import ChatFault, OpenRouter
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.environment import Environment, stalled, watchdog
from tests.support.running import runner_in


async def test_one_of_three_concurrent_resumes_wins(env: Environment, registry: Registry) -> None:
    """W2, W5, W7: TRAVADO → EM_ANDAMENTO once; then it runs to CONCLUIDO."""
    for number in range(3):
        env.write(f"{number}.txt", f"um contrato {number}")
    execution_id = await env.submit()
    await stalled(env, registry, execution_id)
    answers = await asyncio.gather(*(env.operations.resume(execution_id) for _ in range(3)))
    assert sorted(one.resumed for one in answers) == [False, False, True]
    assert {one.reason for one in answers if not one.resumed} == {
        "the batch is running: there is nothing to resume"
    }
    execution = await env.operations.execution(execution_id)
    assert (execution.status, execution.tentativas_retry) == (ExecutionStatus.EM_ANDAMENTO, 1)
    assert (await env.run(execution_id)).documentos.CONCLUIDO == 3


async def test_an_execution_that_stalls_after_its_last_resume_is_an_error(
    env: Environment, registry: Registry
) -> None:
    """W2, W3: TRAVADO → ERRO after max_retries_execucao; reprocessing requeues its documents."""
    project = await env.operations.project("default")
    await env.operations.put_project(
        **{**project.model_dump(), "name": "once", "max_retries_execucao": 1}
    )
    env.write("a.txt", "um contrato")
    execution_id = await env.submit(project="once")
    await stalled(env, registry, execution_id)
    assert (await env.operations.resume(execution_id)).resumed
    await env.serve_in_vain()
    await env.age(execution_id)
    async with watchdog(env.app, registry):
        execution = await env.until(lambda one: one.status is ExecutionStatus.ERRO, execution_id)
    assert (execution.documentos.ERRO, execution.max_retries) == (1, 1)
    assert (await env.results(execution_id))["a.txt"]["erro_codigo"] == "BATCH_STALLED"
    assert not (await env.operations.resume(execution_id)).resumed
    assert len(await env.operations.reprocess(execution_id)) == 1
    assert (await env.run(execution_id)).documentos.CONCLUIDO == 1


async def test_a_document_that_hangs_is_resumed_where_it_stopped(
    env: Environment, chat: OpenRouter
) -> None:
    """W1, W5: the API hangs; the resume requeues the document, and its text is not read again."""
    chat.break_with(ChatFault.HANG, contains="slow", times=1, seconds=600)
    path = env.write("slow.pdf", pdfs.text_pdf("a slow contrato"))
    execution_id = await env.submit()
    async with runner_in(env.app):
        task_id = (await env.results(execution_id))["slow.pdf"]["id"]

        def at_the_api(_: object) -> bool:
            return chat.calls["/api/v1/chat/completions"] == 1

        await env.until(at_the_api, execution_id)
        path.unlink()  # a second read would fail
        await env.age(execution_id)
        await env.until(lambda one: one.status is ExecutionStatus.TRAVADO, execution_id)
        assert (await env.operations.resume(execution_id)).released == 1
        execution = await env.ended(execution_id)
    assert (execution.status, execution.documentos.CONCLUIDO) == (
        ExecutionStatus.CONCLUIDO,
        1,
    )
    assert (await env.app.get(task_id)).attempt == 2
    steps = {one["name"]: one["attempt"] for one in await env.app.steps(task_id)}
    assert steps == {"TEXT_EXTRACTED": 1, "CLASSIFIED": 2, "RESULT_STORED": 2}


async def test_a_file_that_comes_back_is_reprocessed(env: Environment) -> None:
    """W5: a missing file is an error with a reason, not a skip; other documents are unchanged."""
    missing = env.write("gone.txt", "um contrato")
    env.write("here.txt", "um contrato")
    env.write("empty.txt", "")
    execution_id = await env.submit()
    missing.unlink()
    execution = await env.run(execution_id)
    row = (await env.results(execution_id))["gone.txt"]
    assert (execution.status, row["status"], row["erro_codigo"], row["tentativas"]) == (
        "CONCLUIDO",
        "ERRO",
        "FILE_MISSING",
        3,
    )
    env.write("gone.txt", "um contrato")
    assert await env.operations.reprocess(execution_id, codes=["HTTP_500"]) == []
    assert await env.operations.reprocess(execution_id, codes=["FILE_MISSING"]) == [row["id"]]
    execution = await env.run(execution_id)
    assert {state: count for state, count in execution.documentos if count} == {
        "CONCLUIDO": 2,
        "PULADO": 1,
    }
