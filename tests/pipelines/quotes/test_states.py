"""A quote has one state, the same in every endpoint and in SQL."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from regente import Regente, Task
from regente.api.config import ApiConfig
from regente.engine.pipeline import Registry
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from tests.api.conftest import Served, body_of, served
from tests.pipelines.quotes.conftest import CHAIR, GOL, ended, standing_at
from tests.pipelines.quotes.test_upkeep import AGE, change
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

IN_SQL = (
    "SELECT id, status, last_heartbeat, worker_id, attempt_number FROM regente.quote_requests "
    "ORDER BY id"
)
STUCK_IN_SQL = (
    "SELECT id FROM regente.quote_requests WHERE status = 'PROCESSING' "
    "AND last_heartbeat < now() - interval '10 minutes'"
)


def in_sql(url: str, statement: str = IN_SQL) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(statement).fetchall()


async def throttled(app: Regente, quote_id: int) -> None:
    """Until the quote waits between two attempts."""

    async def waits() -> bool:
        task = await app.get(quote_id)
        return (task.status, task.attempt) == ("queued", 1)

    assert await eventually_async(waits)


async def test_a_quote_between_two_attempts_has_one_state_everywhere(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """Q1, Q3, Q5: it is PROCESSING, and not stuck, however long ago its last heartbeat was."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.THROTTLED, retry_after=3600)
    done = await operations.submit([CHAIR, GOL], lot="L")
    waiting, pending = done.ids
    async with served(app, ApiConfig()) as api:
        await app.pause("quotes")
        async with app.database.connection() as connection:
            await connection.execute(
                b"UPDATE regente.tasks SET run_at = run_at + interval '1 day' WHERE id = %s",
                [pending],
            )
        await app.resume("quotes")
        async with runner_in(app):
            await throttled(app, waiting)
        await change(app, AGE, id=waiting, age="11 minutes")
        stats = body_of(await api.viewer.get("/api/system/processing-stats"))
        assert (stats["total_processing"], stats["stuck_count"], stats["by_checkpoint"]) == (
            1,
            0,
            {"AI_ANALYSIS_START": 1},
        )
        assert body_of(await api.viewer.get("/api/system/stuck-quotes"))["count"] == 0
        assert body_of(await api.operator.post("/api/system/recover-stuck"))["ids"] == []
        shown = body_of(await api.viewer.get(f"/api/quotes/{waiting}"))
        assert (shown["status"], shown["worker_id"], shown["last_heartbeat"]) == (
            "PROCESSING",
            None,
            None,
        )
        listed = body_of(await api.viewer.get("/api/quotes", params={"status": "PROCESSING"}))
        assert [one["id"] for one in listed["items"]] == [waiting]
        for path in (
            f"/api/system/batch-status/{done.batch_id}",
            f"/api/quotes/lots/{done.batch_id}",
        ):
            lot = body_of(await api.viewer.get(path))
            assert (lot["pending"], lot["processing"]) == (1, 1), path
        metrics = (await api.viewer.get("/metrics")).text
        assert 'regente_quotes{status="PROCESSING"} 1.0' in metrics
        assert 'regente_quotes{status="PENDING"} 1.0' in metrics
        assert 'regente_quotes_at_checkpoint{checkpoint="AI_ANALYSIS_START"} 1.0' in metrics
        assert "regente_quotes_stuck 0.0" in metrics
    rows = in_sql(database_url)
    assert [(one["id"], one["status"], one["attempt_number"]) for one in rows] == [
        (waiting, "PROCESSING", 1),
        (pending, "PENDING", 0),
    ]
    assert in_sql(database_url, STUCK_IN_SQL) == []


async def test_cleanup_ends_by_default_what_began_25_hours_ago(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q4, Q5: POST cleanup-old, also between two attempts; what began 23 hours ago goes on."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.THROTTLED, retry_after=3600)
    old, young = (await operations.submit([CHAIR, CHAIR])).ids
    async with served(app, ApiConfig()) as api:
        async with runner_in(app):
            await throttled(app, old)
            await throttled(app, young)
        await change(app, AGE, id=old, age="25 hours")
        await change(app, AGE, id=young, age="23 hours")
        ended_now = body_of(await api.operator.post("/api/system/cleanup-old"))
        assert ended_now == {"marked_as_error": 1, "ids": [old]}
    assert [(await operations.get(one)).status for one in (old, young)] == ["ERROR", "PROCESSING"]


@pytest.fixture
def others(registry: Registry) -> Registry:
    @registry.pipeline("other", stall_after=None)
    async def other(task: Task) -> None:
        await task.progress(checkpoint="THERE")
        await asyncio.Event().wait()

    return registry


async def test_the_endpoints_are_about_quotes_unless_asked(
    app: Regente, others: Registry, operations: QuoteOperations
) -> None:
    """Q5: a stuck task of another pipeline is neither counted, shown, recovered nor ended."""
    async with served(app, ApiConfig()) as api, runner_in(app):
        batch = await app.open_batch("others")
        task_id = await app.enqueue("other", batch=batch)

        async def begun() -> bool:
            return (await app.get(task_id)).checkpoint == "THERE"

        assert await eventually_async(begun)
        await change(app, AGE, id=task_id, age="25 hours")
        await nothing_of_it(api, task_id, batch)
        for asked in ("other", "all"):
            params = {"pipeline": asked}
            stats = body_of(await api.viewer.get("/api/system/processing-stats", params=params))
            assert (stats["total_processing"], stats["stuck_count"]) == (1, 1)
            assert stats["by_checkpoint"] == {"THERE": 1}
            stuck = body_of(await api.viewer.get("/api/system/stuck-quotes", params=params))
            assert [one["id"] for one in stuck["quotes"]] == [task_id]
            status = await api.viewer.get(f"/api/system/batch-status/{batch}", params=params)
            assert body_of(status)["processing"] == 1
        old = await api.operator.post("/api/system/cleanup-old", params={"pipeline": "all"})
        assert body_of(old)["ids"] == [task_id]


async def nothing_of_it(api: Served, task_id: int, batch: int) -> None:
    stats = body_of(await api.viewer.get("/api/system/processing-stats"))
    assert (stats["total_processing"], stats["by_checkpoint"]) == (0, {})
    assert body_of(await api.viewer.get("/api/system/stuck-quotes"))["count"] == 0
    for path in ("recover-stuck", "cleanup-old"):
        assert body_of(await api.operator.post(f"/api/system/{path}"))["ids"] == []
    refused = await api.operator.post(f"/api/system/recover-quote/{task_id}")
    assert (refused.status_code, refused.json()["code"]) == (404, "NOT_FOUND")
    assert (await api.viewer.get(f"/api/system/batch-status/{batch}")).status_code == 404
    assert (await api.operator.post(f"/api/system/resume-batch/{batch}")).status_code == 404


async def test_the_list_of_checkpoints_has_each_that_was_passed(
    app: Regente, operations: QuoteOperations
) -> None:
    """Q2: all eleven, over a product and a vehicle, in their order."""
    product, vehicle = (await operations.submit([CHAIR, GOL])).ids
    await app.run(until_idle=True)
    passed = {}
    for quote_id in (product, vehicle):
        found = await operations.get(quote_id)
        passed[quote_id] = list(dict.fromkeys(one.checkpoint for one in found.checkpoints))
        assert [one.at for one in found.checkpoints] == sorted(one.at for one in found.checkpoints)
    assert passed == {
        product: [
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
        ],
        vehicle: [
            "INIT",
            "AI_ANALYSIS_START",
            "AI_ANALYSIS_DONE",
            "FIPE_SEARCH",
            "FINALIZATION",
            "COMPLETED",
        ],
    }


async def test_processing_time_leaves_out_what_waits(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """Q9: an hour between two attempts is no processing, nor one in which the lane is parked."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.THROTTLED, count=1, retry_after=3600)
    async with served(app, ApiConfig(metrics_seconds=0.0)) as api:
        (quote_id,) = (await operations.submit([CHAIR])).ids
        async with runner_in(app):
            await throttled(app, quote_id)
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(
                    "UPDATE regente.events SET at = at - interval '1 hour' WHERE task_id = %s",
                    [quote_id],
                )
                connection.execute(
                    "UPDATE regente.tasks SET started_at = started_at - interval '1 hour', "
                    "run_at = regente.clock() WHERE id = %s",
                    [quote_id],
                )
                connection.execute(
                    "UPDATE regente.lanes SET parked_until = parked_until - interval '1 hour'"
                )
            assert (await ended(operations, quote_id)).status == "DONE"
        stats = body_of(await api.viewer.get("/api/system/processing-stats"))
        assert 0 < stats["avg_processing_time_seconds"] < 600
        name = "regente_quotes_processing_average_seconds"
        metrics = (await api.viewer.get("/metrics")).text
        (average,) = [
            float(line.split()[1]) for line in metrics.splitlines() if line.startswith(f"{name} ")
        ]
        assert round(average, 2) == stats["avg_processing_time_seconds"]


async def test_the_view_has_the_columns_and_indexes_of_the_specification(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, database_url: str
) -> None:
    """Q1, Q6: quote_requests, also for a quote whose task was deleted."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    hung, gone = (await operations.submit([CHAIR, GOL])).ids
    async with runner_in(app):
        await standing_at(operations, hung, "PRICE_EXTRACTION_START")
        await ended(operations, gone)
        await change(app, AGE, id=hung, age="11 minutes")
        await change(app, b"DELETE FROM regente.tasks WHERE id = %(id)s", id=gone)
        rows = in_sql(database_url, "SELECT * FROM regente.quote_requests ORDER BY id")
        assert in_sql(database_url, STUCK_IN_SQL) == [{"id": hung}]
        by_worker = in_sql(
            database_url,
            f"SELECT id FROM regente.quote_requests WHERE worker_id = '{rows[0]['worker_id']}'",
        )
        market.mend()
        await ended(operations, hung)
    assert by_worker == [{"id": hung}]
    assert {
        "processing_checkpoint",
        "last_heartbeat",
        "worker_id",
        "resume_data",
        "started_at",
        "completed_at",
        "attempt_number",
        "claude_payload_json",
        "google_shopping_response_json",
    } <= {*rows[0]}
    assert [(one["id"], one["status"], one["processing_checkpoint"]) for one in rows] == [
        (hung, "PROCESSING", "PRICE_EXTRACTION_START"),
        (gone, "DONE", "COMPLETED"),
    ]
    assert rows[0]["claude_payload_json"]["analysis"]["kind"] == "product"
    assert {*rows[0]["resume_data"]} == {
        "claude_payload_json",
        "google_shopping_response_json",
        "shop_pages",
    }
    shown = await operations.get(hung)
    assert shown.resume_data["claude_payload_json"] == rows[0]["claude_payload_json"]
    indexes = in_sql(
        database_url, "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'ix\\_quote%'"
    )
    assert {one["indexname"] for one in indexes} == {
        "ix_quote_requests_heartbeat_status",
        "ix_quote_requests_worker_id",
    }


def test_looking_for_stuck_quotes_reads_no_history(database_url: str) -> None:
    """Q3, I10: by its index, beside 20,000 quotes that are done."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO regente.tasks (pipeline, status, attempt, finished_at, heartbeat_at) "
            "SELECT 'quotes', 'completed', 1, now(), now() FROM generate_series(1, 20000)"
        )
        connection.execute("ANALYZE regente.tasks")
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {STUCK_IN_SQL}").fetchall())
    assert "ix_quote_requests_heartbeat_status" in plan
    assert "Seq Scan on tasks" not in plan
