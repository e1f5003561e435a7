"""The endpoints of the original specifications, with their shapes and words, for any pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Fatal, Regente, Task
from regente.engine.pipeline import Registry
from tests.api.conftest import Served, body_of
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

OLDER = (
    b"UPDATE regente.tasks SET heartbeat_at = regente.clock() - %s::interval, started_at = "
    b"regente.clock() - %s::interval "
    b"WHERE id = %s"
)


@pytest.fixture
def registry() -> Registry:
    found, never = Registry(), asyncio.Event()

    @found.pipeline("quotes", stall_after=None)
    async def quotes(task: Task[dict[str, Any]]) -> str:
        if task.args.get("fail"):
            raise Fatal("a corrupt PDF", code="PDF_BROKEN")
        if task.args.get("hang") and task.attempt == 1:
            await task.step("AI_ANALYSIS_DONE", _nothing)
            await never.wait()
        return "done"

    @found.pipeline("rounds")
    async def rounds(task: Task[dict[str, Any]]) -> None:
        """A pipeline `rounds` that discovers no match."""

    return found


async def _nothing() -> None:
    return None


async def hung(app: Regente, task_id: int, age: str) -> None:
    """A running task whose last heartbeat is that old."""

    async def begun() -> bool:
        return (await app.get(task_id)).checkpoint == "AI_ANALYSIS_DONE"

    assert await eventually_async(begun)
    async with app.database.connection() as connection:
        await connection.execute(OLDER, [age, age, task_id])


async def test_stuck_tasks_are_counted_listed_and_recovered(api: Served, app: Regente) -> None:
    """Q3, Q5: /api/system, with the specified response."""
    async with runner_in(app):
        one = await app.enqueue("quotes", {"hang": True})
        await hung(app, one, "11 minutes")
        assert body_of(await api.viewer.get("/api/system/processing-stats")) == {
            "total_processing": 1,
            "stuck_count": 1,
            "by_checkpoint": {"AI_ANALYSIS_DONE": 1},
            "avg_processing_time_seconds": 0.0,
        }
        stuck = body_of(
            await api.viewer.get("/api/system/stuck-quotes", params={"pipeline": "quotes"})
        )
        assert (stuck["count"], stuck["quotes"][0]["id"], stuck["quotes"][0]["attempt_number"]) == (
            1,
            one,
            1,
        )
        assert body_of(await api.operator.post("/api/system/recover-stuck")) == {
            "recovered": 1,
            "ids": [one],
        }

        async def done() -> bool:
            return (await app.get(one)).status == "completed"

        assert await eventually_async(done)
        assert (await api.operator.post(f"/api/system/recover-quote/{one}")).status_code == 409
    assert (body_of(await api.viewer.get("/api/system/processing-stats")))[
        "avg_processing_time_seconds"
    ] > 0
    assert (body_of(await api.viewer.get("/api/system/health")))["status"] == "healthy"


async def test_one_quote_is_recovered_and_old_ones_become_errors(api: Served, app: Regente) -> None:
    """Q4, Q5: recover-quote and cleanup-old."""
    async with runner_in(app):
        one, other = await app.enqueue_many("quotes", [{"hang": True}, {"hang": True}])
        await hung(app, other, "25 hours")
        await hung(app, one, "11 minutes")
        assert body_of(await api.operator.post("/api/system/cleanup-old")) == {
            "marked_as_error": 1,
            "ids": [other],
        }
        assert ((await app.get(other)).status, (await app.get(other)).error_code) == (
            "failed",
            "EXPIRED",
        )
        assert (body_of(await api.operator.post(f"/api/system/recover-quote/{one}")))["ids"] == [
            one
        ]
        assert (body_of(await api.operator.post(f"/api/system/recover-quote/{other}")))["ids"] == [
            other
        ]

        async def done() -> bool:
            return [(await app.get(task_id)).status for task_id in (one, other)] == [
                "completed",
                "completed",
            ]

        assert await eventually_async(done)
    assert (await api.operator.post("/api/system/recover-quote/999")).status_code == 404


async def stalled(app: Regente) -> int:
    batch = await app.open_batch("lote-1", stall_after=300, details={"route": "/classificador/"})
    await app.enqueue_many(
        "quotes", [{"fail": True}, {}, {}], keys=["doc-1", "doc-2", "doc-3"], batch=batch
    )
    await app.run(until_idle=True)
    await app.enqueue("quotes", {}, key="doc-4", batch=batch)
    async with app.database.connection() as connection:
        await connection.execute(
            b"UPDATE regente.batches SET status = 'stalled', finished_at = NULL WHERE id = %s",
            [batch],
        )
    return batch


async def test_an_execution_uses_the_words_of_its_specification(api: Served, app: Regente) -> None:
    """W2, W4, W5, W7: /execucoes."""
    batch = await stalled(app)
    status = body_of(await api.viewer.get(f"/execucoes/{batch}/status-detalhado"))
    assert (status["status"], status["total"], status["rota_origem"]) == (
        "TRAVADO",
        4,
        "/classificador/",
    )
    assert status["documentos"] == {
        "PENDENTE": 1,
        "PROCESSANDO": 0,
        "CONCLUIDO": 2,
        "ERRO": 1,
        "PULADO": 0,
        "CANCELADO": 0,
    }
    assert (status["erros"], status["tentativas_retry"], status["max_retries"]) == (
        {"PDF_BROKEN": 1},
        0,
        3,
    )
    assert status["ultimo_heartbeat"] is not None
    assert status["ultimo_codigo_processado"] in ("doc-1", "doc-2", "doc-3")
    errors = body_of(await api.viewer.get(f"/execucoes/{batch}/erros"))
    (error,) = errors["itens"]
    assert (errors["total"], error["codigo"], error["status"], error["erro_codigo"]) == (
        1,
        "doc-1",
        "ERRO",
        "PDF_BROKEN",
    )
    assert (error["erro_mensagem"], error["tentativas"], error["ultimo_erro_em"] is not None) == (
        "a corrupt PDF",
        1,
        True,
    )
    both = await asyncio.gather(
        *(api.operator.post(f"/execucoes/{batch}/retomar") for _ in range(2))
    )
    assert sorted((body_of(one))["retomada"] for one in both) == [False, True]
    assert (body_of(await api.viewer.get(f"/execucoes/{batch}/status-detalhado")))[
        "status"
    ] == "EM_ANDAMENTO"
    redone = body_of(
        await api.operator.post(
            f"/execucoes/{batch}/reprocessar-erros", json={"codigos": ["PDF_BROKEN"]}
        )
    )
    assert redone["reprocessados"] == 1
    for method, path in (
        ("GET", "status-detalhado"),
        ("GET", "erros"),
        ("POST", "retomar"),
        ("POST", "reprocessar-erros"),
    ):
        assert (await api.operator.request(method, f"/execucoes/999/{path}")).status_code == 404


async def test_a_batch_is_resumed_and_shown_in_the_words_of_the_quotes(
    api: Served, app: Regente
) -> None:
    """Q5: resume-batch and batch-status."""
    batch = await stalled(app)
    status = body_of(await api.viewer.get(f"/api/system/batch-status/{batch}"))
    assert (
        status["status"],
        status["total"],
        status["failed"],
        status["pending"],
        status["progress_percentage"],
    ) == (
        "STUCK",
        4,
        1,
        1,
        75.0,
    )
    assert (body_of(await api.operator.post(f"/api/system/resume-batch/{batch}")))[
        "resumed"
    ] is True
    assert (body_of(await api.operator.post(f"/api/system/resume-batch/{batch}")))[
        "resumed"
    ] is False


async def test_a_round_is_started_once_and_only_what_failed_is_run_again(
    api: Served, app: Regente
) -> None:
    """Z5: /api/scrape; details are in tests/pipelines/rounds."""
    body = {"league": "brasileirao-2025", "round": 12}
    started = body_of(await api.operator.post("/api/scrape", json=body), 202)
    assert (started["status"], started["round"], started["league"]) == (
        "PENDING",
        12,
        "brasileirao-2025",
    )
    assert (body_of(await api.operator.post("/api/scrape", json=body), 202))["job_id"] == started[
        "job_id"
    ]
    unknown = body_of(
        await api.operator.post("/api/scrape", json={**body, "pipeline": "nothing"}), 422
    )
    assert unknown["code"] == "VALIDATION"
    await app.cancel(started["task_id"])
    retried = body_of(
        await api.operator.post("/api/scrape/retry-failed", json={"job_id": started["job_id"]}), 202
    )
    assert retried == {"selected": 1, "retried": 1, "task_ids": [started["task_id"]]}
    assert (body_of(await api.operator.post("/api/scrape/retry-failed"), 202))["retried"] == 0
