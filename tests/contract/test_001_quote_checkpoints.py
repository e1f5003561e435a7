"""Document 001, checkpoints and resilience of quotes, section by section.

Read it beside the document: each test names its section and is the sentence that it proves. Where
Regente does something else, the sentence is in docs/deviations.md, section Quotes, and the test
here shows both. Details and faults are in tests/pipelines/quotes.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from regente import Regente, Retry, Task
from regente.api.config import ApiConfig
from regente.components import components_of
from regente.engine.migrations import Migrator
from regente.engine.pipeline import Registry
from regente.pipelines.quotes.maintenance import STUCK_SECONDS
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.api.conftest import Served, body_of, served
from tests.pipelines.quotes.conftest import (  # fixtures, too
    CHAIR,
    GOL,
    SHOPS,
    app,
    ended,
    market,
    operations,
    paid_once,
    sandbox,
    settings,
    standing_at,
)
from tests.pipelines.quotes.processes import QuoteRunner, expire_leases
from tests.pipelines.quotes.test_alerts import COMPLETED, RUNNER, RUNS
from tests.pipelines.quotes.test_upkeep import AGE, change
from tests.support.eventually import eventually_async
from tests.support.promtool import ALERTS
from tests.support.running import runner_in

__all__ = ["app", "market", "operations", "sandbox", "settings"]

PRODUCT = [
    "INIT",
    "AI_ANALYSIS_START",
    "AI_ANALYSIS_DONE",
    "SHOPPING_SEARCH_START",
    "SHOPPING_SEARCH_DONE",
    "PRICE_EXTRACTION_START",
    "PRICE_EXTRACTION_PROGRESS",
    "PRICE_EXTRACTION_DONE",
    "FINALIZATION",
    "COMPLETED",
]
BEGAN = b"""
UPDATE regente.tasks SET started_at = regente.clock() - %(ago)s::interval WHERE id = %(id)s
"""
VEHICLE = [
    "INIT",
    "AI_ANALYSIS_START",
    "AI_ANALYSIS_DONE",
    "FIPE_SEARCH",
    "FINALIZATION",
    "COMPLETED",
]


def sql(url: str, statement: str, *params: Any) -> list[dict[str, Any]]:
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        cursor = connection.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []


async def submitted(operations: QuoteOperations, *quotes: QuoteArgs) -> list[int]:
    return (await operations.submit(quotes)).ids


async def hung(operations: QuoteOperations, market: QuotesStandin, quote: QuoteArgs) -> int:
    """A quote that is being processed by the runner in this process, and hangs at shops' pages."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    (quote_id,) = await submitted(operations, quote)
    await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
    return quote_id


# Problema Resolvido: Cenários Cobertos


@pytest.mark.parametrize("how", ["deploy or manual stop", "crash or out of memory"])
async def test_problem_no_quote_stays_in_processing_when_its_worker_is_gone(
    how: str,
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Cenários 1, 2, 4, 5 (Q12): SIGTERM, and SIGKILL, which the kernel sends without memory, too.
    More of each: tests/pipelines/quotes/faults/test_scenarios.py."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    (quote_id,) = await submitted(operations, CHAIR)
    quick = {"REGENTE_DRAIN_SECONDS": "0.2"}
    with QuoteRunner(database_url, sandbox.url, tmp_path, environment=quick) as worker:
        await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        if how == "deploy or manual stop":
            worker.send(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait) == 0, worker.said()
        else:
            worker.kill()
            expire_leases(database_url)
    market.mend()
    async with runner_in(app):
        assert (await ended(operations, quote_id)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


async def test_problem_a_lost_connection_to_an_api_is_survived(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Cenário 3 (Q12): "Timeout de Conexão: Perda de conexão com APIs externas"."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.LOST, count=1)
    market.break_with(Route.SEARCH, MarketFaultKind.UNAVAILABLE, count=1)
    (quote_id,) = await submitted(operations, CHAIR)
    async with runner_in(app):
        assert (await ended(operations, quote_id)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


# 1. Campos de Checkpoint (QuoteRequest)


async def test_1_a_quote_request_has_the_fields_of_its_checkpoint(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """§1 (Q1): in SQL, in the view `quote_requests`, and under the same names in the API."""
    types = {
        row["column_name"]: row["data_type"]
        for row in sql(
            database_url,
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'regente' AND table_name = 'quote_requests'",
        )
    }
    assert {
        "processing_checkpoint": "text",
        "last_heartbeat": "timestamp with time zone",
        "worker_id": "text",
        "resume_data": "jsonb",
        "started_at": "timestamp with time zone",
        "completed_at": "timestamp with time zone",
    }.items() <= types.items()
    async with served(app, ApiConfig()) as api, runner_in(app):
        quote_id = await hung(operations, market, CHAIR)
        (row,) = sql(database_url, "SELECT * FROM regente.quote_requests")
        shown = body_of(await api.viewer.get(f"/api/quotes/{quote_id}"))
        assert row["worker_id"] == shown["worker_id"] is not None
        assert row["processing_checkpoint"] == shown["processing_checkpoint"]
        paid = "claude_payload_json"
        assert row["resume_data"][paid] == shown["resume_data"][paid] is not None
        assert None not in (row["last_heartbeat"], row["started_at"])
        assert row["completed_at"] is None
        market.mend()
        await ended(operations, quote_id)
    (row,) = sql(database_url, "SELECT * FROM regente.quote_requests")
    assert (row["worker_id"], row["completed_at"] is not None) == (None, True)


# 2. Checkpoints Definidos


@pytest.mark.parametrize(("quote", "course"), [(CHAIR, PRODUCT), (GOL, VEHICLE)])
async def test_2_the_processing_passes_the_eleven_checkpoints_in_their_order(
    quote: QuoteArgs, course: list[str], app: Regente, operations: QuoteOperations
) -> None:
    """§2 (Q2): FIPE_SEARCH for vehicles, or the shopping search; eleven in all."""
    (quote_id,) = await submitted(operations, quote)
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    assert list(dict.fromkeys(one.checkpoint for one in found.checkpoints)) == course
    assert found.processing_checkpoint == "COMPLETED"
    assert len({*PRODUCT, *VEHICLE}) == 11


# 3. Detecção de Cotações Travadas


async def test_3_stuck_is_processing_without_a_heartbeat_for_ten_minutes(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """§3 (Q3): in the endpoint and in the view, with the document's condition."""
    stuck = (
        "SELECT id FROM regente.quote_requests "
        "WHERE status = 'PROCESSING' AND last_heartbeat < now() - interval '10 minutes'"
    )
    async with served(app, ApiConfig()) as api, runner_in(app):
        quote_id = await hung(operations, market, CHAIR)
        for age, expected in (("9 minutes", []), ("11 minutes", [quote_id])):
            await change(app, AGE, id=quote_id, age=age)
            listed = body_of(await api.viewer.get("/api/system/stuck-quotes"))
            assert [one["id"] for one in listed["quotes"]] == expected
            assert [row["id"] for row in sql(database_url, stuck)] == expected
        market.mend()


async def test_3_a_quote_that_waits_for_its_next_attempt_is_not_stuck(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """§3, deviation: it is PROCESSING, and in the queue already. A provider asked for an hour."""
    market.break_with(Route.SEARCH, MarketFaultKind.THROTTLED, retry_after=3600)
    (quote_id,) = await submitted(operations, CHAIR)

    async def waits() -> bool:
        task = await app.get(quote_id)
        return (task.status, task.attempt) == ("queued", 1)

    async with served(app, ApiConfig()) as api:
        async with runner_in(app):
            assert await eventually_async(waits)
        await change(app, AGE, id=quote_id, age="11 minutes")
        stats = body_of(await api.viewer.get("/api/system/processing-stats"))
        assert (stats["total_processing"], stats["stuck_count"]) == (1, 0)
    (row,) = sql(
        database_url, "SELECT status, last_heartbeat, worker_id FROM regente.quote_requests"
    )
    assert row == {"status": "PROCESSING", "last_heartbeat": None, "worker_id": None}


# 4. Tasks Agendadas


async def test_4_the_two_tasks_are_scheduled(app: Regente, operations: QuoteOperations) -> None:
    """§4 (Q4): every 5 minutes, and daily at 04:00."""
    await submitted(operations, CHAIR)
    assert {row["name"]: row["cron"] for row in await app.schedules()} == {
        "recover_stuck_quotes": "*/5 * * * *",
        "cleanup_old_processing": "0 4 * * *",
    }


async def test_4_recover_stuck_quotes_queues_them_again(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """§4 (Q4): the scheduled task itself; the quote ends."""
    async with runner_in(app):
        quote_id = await hung(operations, market, CHAIR)
        await change(app, AGE, id=quote_id, age="11 minutes")
        await app.enqueue("recover_stuck_quotes")

        async def is_recovered() -> bool:
            return (await operations.get(quote_id)).attempt_number == 2

        assert await eventually_async(is_recovered)
        market.mend()
        assert (await ended(operations, quote_id)).status == "DONE"


async def test_4_cleanup_old_processing_marks_those_older_than_24_hours_as_error(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """§4 (Q4): one of 25 hours, and not one of 23."""
    async with runner_in(app):
        old = await hung(operations, market, CHAIR)
        young = await hung(operations, market, CHAIR)
        await change(app, BEGAN, id=old, ago="25 hours")
        await change(app, BEGAN, id=young, ago="23 hours")
        await app.enqueue("cleanup_old_processing")
        assert (await ended(operations, old)).status == "ERROR"
        assert (await operations.get(young)).status == "PROCESSING"
        market.mend()


# API de Monitoramento


async def test_api_the_example_of_processing_stats(
    app: Regente, operations: QuoteOperations, database_url: str
) -> None:
    """Exemplo de Resposta (Q5): quotes in the example's states give the example's answer."""
    await change(app, RUNNER, silent="1 second")
    for checkpoint, count, silent in (
        ("PRICE_EXTRACTION_PROGRESS", 117, "1 minute"),
        ("PRICE_EXTRACTION_PROGRESS", 3, "11 minutes"),
        ("SHOPPING_SEARCH_DONE", 25, "1 minute"),
        ("AI_ANALYSIS_DONE", 5, "1 minute"),
    ):
        ids = await submitted(operations, *[CHAIR] * count)
        await change(app, RUNS, ids=ids, silent=silent)
        reached = "UPDATE regente.tasks SET checkpoint = %s WHERE id = ANY (%s)"
        sql(database_url, reached, checkpoint, ids)
    done = await submitted(operations, CHAIR)
    await change(app, RUNS, ids=done, silent="0")
    await change(app, COMPLETED, ids=done, seconds=44.32)  # after an attempt of one second
    async with served(app, ApiConfig()) as api:
        stats = body_of(await api.viewer.get("/api/system/processing-stats"))
    assert stats == {
        "total_processing": 150,
        "stuck_count": 3,
        "by_checkpoint": {
            "PRICE_EXTRACTION_PROGRESS": 120,
            "SHOPPING_SEARCH_DONE": 25,
            "AI_ANALYSIS_DONE": 5,
        },
        "avg_processing_time_seconds": 45.32,
    }


async def test_api_all_endpoints_answer(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Endpoints Disponíveis (Q5): the eight, on a lot with a stuck quote, an old and a done one."""
    async with served(app, ApiConfig()) as api:
        async with runner_in(app):
            market.break_with(Route.PAGE, MarketFaultKind.HANG)
            lot = await operations.submit([CHAIR, CHAIR, GOL], lot="lote 1")
            stuck, old, done = lot.ids
            await standing_at(operations, stuck, "PRICE_EXTRACTION_START")
            await standing_at(operations, old, "PRICE_EXTRACTION_START")
            assert (await ended(operations, done)).status == "DONE"
            await change(app, AGE, id=stuck, age="11 minutes")
            await change(app, BEGAN, id=old, ago="25 hours")

            assert body_of(await api.viewer.get("/api/system/health"))["status"] == "healthy"
            stats = body_of(await api.viewer.get("/api/system/processing-stats"))
            assert (stats["total_processing"], stats["stuck_count"]) == (2, 1)
            listed = body_of(await api.viewer.get("/api/system/stuck-quotes"))
            assert [(one["id"], one["status"]) for one in listed["quotes"]] == [
                (stuck, "PROCESSING")
            ]
            assert await post(api, "cleanup-old") == {"marked_as_error": 1, "ids": [old]}
            assert await post(api, f"recover-quote/{old}") == {"recovered": 1, "ids": [old]}
            assert await post(api, "recover-stuck") == {"recovered": 1, "ids": [stuck]}
            status = body_of(await api.viewer.get(f"/api/system/batch-status/{lot.batch_id}"))
            assert (status["total"], status["completed"], status["processing"]) == (3, 1, 2)
        assert (await post(api, f"resume-batch/{lot.batch_id}"))["resumed"] is False
        sql(app.database_url, "UPDATE regente.batches SET status = 'stalled'")
        assert (await post(api, f"resume-batch/{lot.batch_id}"))["resumed"] is True
        market.mend()
        async with runner_in(app):
            assert {(await ended(operations, one)).status for one in (stuck, old)} == {"DONE"}


async def post(api: Served, path: str) -> Any:
    return body_of(await api.operator.post(f"/api/system/{path}"))


# Fluxo de Recuperação


async def test_recovery_flow_a_stuck_quote_is_queued_and_goes_on(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Fluxo de Recuperação, 1 to 3 (Q4, Q6): its worker is cleared, its attempt number rises, and
    analysis and search are skipped. The number rises when the next worker takes it, in the same
    statement, so that a quote that is queued twice is not counted twice (deviation)."""
    async with served(app, ApiConfig()) as api, runner_in(app):
        quote_id = await hung(operations, market, CHAIR)
        await app.pause("quotes")
        await change(app, AGE, id=quote_id, age="11 minutes")
        assert await post(api, "recover-stuck") == {"recovered": 1, "ids": [quote_id]}
        assert await post(api, "recover-stuck") == {"recovered": 0, "ids": []}
        found = await operations.get(quote_id)
        assert (found.status, found.worker_id, found.attempt_number) == ("PROCESSING", None, 1)
        market.mend()
        await app.resume("quotes")
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 2)
    paid_once(market, analyses=1, searches=1)


async def test_recovery_flow_the_extraction_goes_on_after_the_tested_products(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Fluxo de Recuperação, 3 (Q6): "Se tem resume_data.tested_products → Continua extração". A
    page that was read in the first attempt is not read in the second."""
    market.break_with(Route.PAGE, MarketFaultKind.UNAVAILABLE, count=1)
    (quote_id,) = await submitted(operations, CHAIR)
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 2)
    assert {one.attempt for one in found.checkpoints if one.item is not None} <= {1, 2}
    assert len(found.resume_data["tested_products"]) == SHOPS
    assert market.calls["page"] <= SHOPS + 1  # one was under way when another one failed
    paid_once(market, analyses=1, searches=1)


# Decisões de Design


async def test_design_1_a_dead_worker_holds_no_lock(
    app: Regente,
    operations: QuoteOperations,
    market: QuotesStandin,
    database_url: str,
    sandbox: Sandbox,
    tmp_path: Path,
) -> None:
    """Design 1 (Q12): "Funciona mesmo se o worker morrer sem liberar lock". Deviation: a dead
    worker's quotes are not left for ten minutes, but until its lease ends, a minute at most; the
    worker's heartbeat is the lease of its process."""
    assert Settings().lock_ttl_ms == 60_000
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    (quote_id,) = await submitted(operations, CHAIR)
    with QuoteRunner(database_url, sandbox.url, tmp_path) as worker:
        await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        worker.kill()
    expire_leases(database_url)
    market.mend()
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 2)


async def test_design_2_a_slow_quote_is_not_taken_back_before_ten_minutes(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Design 2 (Q3): "Evita recuperação prematura". Five minutes in one stage are no problem."""
    assert STUCK_SECONDS == 600
    async with runner_in(app):
        quote_id = await hung(operations, market, CHAIR)
        await change(app, AGE, id=quote_id, age="5 minutes")
        assert await app.recover_stuck(STUCK_SECONDS, pipeline="quotes") == []
        market.mend()
        assert (await ended(operations, quote_id)).attempt_number == 1


async def test_design_3_each_stage_is_saved_before_the_next(
    app: Regente, operations: QuoteOperations
) -> None:
    """Design 3 (Q6): what each stage paid for is stored, with its time, as soon as it is there."""
    (quote_id,) = await submitted(operations, CHAIR)
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    moments = {one.checkpoint: one.at for one in reversed(found.checkpoints)}
    assert moments["AI_ANALYSIS_DONE"] <= moments["SHOPPING_SEARCH_START"]
    assert moments["SHOPPING_SEARCH_DONE"] <= moments["PRICE_EXTRACTION_START"]
    assert moments["PRICE_EXTRACTION_DONE"] <= moments["FINALIZATION"] <= moments["COMPLETED"]


async def test_design_4_resume_data_is_json_that_can_be_read(
    app: Regente, operations: QuoteOperations, database_url: str
) -> None:
    """Design 4 (Q1): "Fácil debug e inspeção": with SQL's JSON operators."""
    await submitted(operations, CHAIR)
    await app.run(until_idle=True)
    (row,) = sql(
        database_url,
        "SELECT claude_payload_json -> 'analysis' ->> 'kind' AS kind, "
        "jsonb_array_length(google_shopping_response_json -> 'products') AS products, "
        "jsonb_array_length(resume_data -> 'tested_products') AS tested "
        "FROM regente.quote_requests",
    )
    assert row == {"kind": "product", "products": SHOPS, "tested": SHOPS}


# Índices de Banco de Dados


def test_indexes_stuck_quotes_and_workers_are_found_by_them(database_url: str) -> None:
    """Índices (Q1): both exist, and serve their question beside 20,000 quotes that are done.
    Deviation: the first one is partial and without the heartbeat, which costs no index update
    then."""
    sql(
        database_url,
        "INSERT INTO regente.tasks (pipeline, status, attempt, finished_at) "
        "SELECT 'quotes', 'completed', 1, now() FROM generate_series(1, 20000)",
    )
    sql(
        database_url,
        "INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, "
        "lease_until) SELECT 'worker ' || n, 'h', n, '0', '{quotes}', 1, now() "
        "FROM generate_series(1, 5000) AS n",
    )
    sql(database_url, "ANALYZE regente.tasks, regente.runners")
    for index, condition in (
        (
            "ix_quote_requests_heartbeat_status",
            "status = 'PROCESSING' AND last_heartbeat < now() - interval '10 minutes'",
        ),
        ("ix_quote_requests_worker_id", "worker_id = 'worker 7'"),
    ):
        plan = sql(database_url, f"EXPLAIN SELECT id FROM regente.quote_requests WHERE {condition}")
        text = "\n".join(row["QUERY PLAN"] for row in plan)
        assert index in text, text
        assert "Seq Scan on tasks" not in text


# Escalabilidade para 10.000 Cotações


def test_scale_five_workers_of_twenty_share_a_pool_of_fifty() -> None:
    """Configurações Recomendadas (Q8): by the default settings. A real run with kills:
    tests/pipelines/quotes/test_scale.py, and `python -m benchmarks.quotes` with 10,000 quotes.
    Deviation: neither Celery nor Redis is needed."""
    replicas, concurrency, pool = 5, 20, 50
    assert replicas * Settings().pool_sizes(concurrency).connections <= pool


# Uso do CheckpointManager


async def test_checkpoint_manager_its_operations_are_those_of_a_task(
    app: Regente, registry: Registry
) -> None:
    """Uso do CheckpointManager (Q7): can_resume, get_resume_checkpoint, start_processing,
    save_checkpoint, update_heartbeat, complete_processing. Deviation: they are the engine's, and no
    class of the application."""
    seen: list[Any] = []

    async def analyse() -> str:
        seen.append("analysed")
        return "chair"

    @registry.pipeline("process_quote_request", retry=Retry(max_attempts=2, first=0))
    async def process_quote_request(task: Task) -> str:
        seen.append((task.resumed, (await app.get(task.id)).checkpoint))  # can_resume, resume from
        item = await task.step("AI_ANALYSIS_DONE", analyse)  # save_checkpoint, or skip
        await task.progress(0.3)
        await task.heartbeat()  # update_heartbeat
        if task.attempt == 1:
            raise ConnectionError("the connection is lost")
        return item  # complete_processing(quote, QuoteStatus.DONE)

    task_id = await app.enqueue("process_quote_request")
    async with runner_in(app):

        async def completed() -> bool:
            return (await app.get(task_id)).status == "completed"

        assert await eventually_async(completed)
    assert seen == [(False, None), "analysed", (True, "AI_ANALYSIS_DONE")]


# Monitoramento


async def test_monitoring_the_metrics_have_the_figures_of_the_document(
    app: Regente, operations: QuoteOperations
) -> None:
    """Métricas Importantes (Q9): stuck_count, avg_processing_time, by_checkpoint."""
    await change(app, RUNNER, silent="1 second")
    await change(app, RUNS, ids=await submitted(operations, CHAIR, CHAIR), silent="11 minutes")
    done = await submitted(operations, CHAIR)
    await change(app, RUNS, ids=done, silent="0")
    await change(app, COMPLETED, ids=done, seconds=44)
    async with served(app, ApiConfig(metrics_seconds=0.0)) as api:
        text = (await api.viewer.get("/metrics")).text
    assert "\nregente_quotes_stuck 2.0\n" in text
    at = 'regente_quotes_at_checkpoint{checkpoint="PRICE_EXTRACTION_PROGRESS"} 2.0'
    assert f"\n{at}\n" in text
    found = re.search(r"^regente_quotes_processing_average_seconds (.*)$", text, re.MULTILINE)
    assert found is not None
    assert float(found[1]) == pytest.approx(45, abs=0.1)


def test_monitoring_the_three_alerts_have_their_limits() -> None:
    """Alertas Sugeridos (Q9). What they do on real metrics, by promtool:
    tests/pipelines/quotes/test_alerts.py."""
    rules = {
        name: (expression, severity)
        for name, expression, severity in re.findall(
            r"alert: (\w+)\n\s+expr: (.*)\n(?:\s+for: .*\n)?\s+labels: \{severity: (\w+)\}",
            ALERTS.read_text(),
        )
    }
    assert rules["HighStuckQuotes"] == ("max(regente_quotes_stuck) > 10", "warning")
    assert rules["SlowProcessing"] == (
        "max(regente_quotes_processing_average_seconds) > 120",
        "warning",
    )
    assert rules["WorkerHealthCheck"] == (
        "min(regente_last_heartbeat_age_seconds) > 900",
        "critical",
    )


# Migração


async def test_migration_goes_up_and_down(database_url: str) -> None:
    """Migração (Q10): as `regente migrate up` and `down REVISION --component quotes` do. Deviation:
    no Alembic."""
    there = "SELECT to_regclass('regente.quote_requests') IS NOT NULL AS view"
    (quotes,) = [one for one in components_of({"quotes"}) if one.name == "quotes"]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        migrator = Migrator(connection, [quotes])
        assert sql(database_url, there) == [{"view": True}]
        await migrator.down(1)
        assert sql(database_url, there) == [{"view": False}]
        await migrator.up()
    assert sql(database_url, there) == [{"view": True}]


# Conclusão


async def test_conclusion_integration_is_gradual(
    app: Regente, operations: QuoteOperations, database_url: str
) -> None:
    """Conclusão: "não-intrusiva": a quote can be queued as a plain task, too, and is shown."""
    quote_id = await app.enqueue("quotes", {"description": CHAIR.description})
    await app.run(until_idle=True)
    (row,) = sql(database_url, "SELECT id, status, description FROM regente.quote_requests")
    assert row == {"id": quote_id, "status": "DONE", "description": CHAIR.description}
