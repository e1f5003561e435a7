"""The two scheduled tasks, and the figures about quotes in progress."""

from __future__ import annotations

from functools import partial
from typing import Any

from regente import Regente
from regente.api.config import ApiConfig
from regente.pipelines.quotes import BUILTIN
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from tests.api.conftest import Served, body_of, served
from tests.pipelines.quotes.conftest import CHAIR, ended, paid_once, standing_at
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

AGE = (
    b"UPDATE regente.tasks SET heartbeat_at = regente.clock() - %(age)s::interval, "
    b"started_at = regente.clock() - %(age)s::interval WHERE id = %(id)s"
)
DUE = b"UPDATE regente.schedules SET next_at = regente.clock() WHERE name = %(name)s"


async def change(app: Regente, text: bytes, **params: Any) -> None:
    async with app.database.connection() as connection:
        await connection.execute(text, params)


async def test_the_schedules_of_the_specification_are_there_with_the_first_quote(
    app: Regente, operations: QuoteOperations
) -> None:
    """Q4: every 5 minutes, and daily at 04:00; changed schedules stay changed."""
    assert await app.schedules() == []
    await operations.submit([CHAIR])
    found = {
        row["name"]: (row["pipeline"], row["cron"], row["timezone"])
        for row in await app.schedules()
    }
    assert found == {
        "recover_stuck_quotes": ("recover_stuck_quotes", "*/5 * * * *", "UTC"),
        "cleanup_old_processing": ("cleanup_old_processing", "0 4 * * *", "UTC"),
    }
    await app.schedule("recover_stuck_quotes", "recover_stuck_quotes", "*/2 * * * *")
    await operations.submit([CHAIR])
    assert {row["cron"] for row in await app.schedules()} == {"*/2 * * * *", "0 4 * * *"}
    assert {*BUILTIN.pipelines} == {"quotes", *found}


async def result_of(app: Regente, pipeline: str) -> Any:
    """The result of the task that the schedule queued."""

    async def done() -> Any:
        return next(
            (one.result for one in await app.tasks(pipeline=pipeline, statuses=["completed"])), None
        )

    return await eventually_async(done, within_seconds=60.0)


async def test_a_stuck_quote_is_recovered_by_the_schedule(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q3, Q4: its heartbeat is 11 minutes old; the next attempt pays nothing again."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    async with runner_in(app):
        await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        await change(app, AGE, id=quote_id, age="11 minutes")
        await change(app, DUE, name="recover_stuck_quotes")
        assert await result_of(app, "recover_stuck_quotes") == {"recovered": [quote_id]}
        market.mend()
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 2)
    events = [
        event.details
        for event in await app.task_events(quote_id)
        if event.event == "task_recovered"
    ]
    assert events == [{"reason": "operator", "by": "recover_stuck_quotes"}]
    paid_once(market, analyses=1, searches=1)


async def _was_recovered(app: Regente, quote_id: int) -> bool:
    return "task_recovered" in [event.event for event in await app.task_events(quote_id)]


async def test_recovery_takes_only_stuck_quotes(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q3: the limit is ten minutes, not nine."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    stuck, slow = (await operations.submit([CHAIR, CHAIR])).ids
    async with runner_in(app):
        for quote_id in (stuck, slow):
            await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        await change(app, AGE, id=slow, age="9 minutes")
        await change(app, AGE, id=stuck, age="11 minutes")
        await app.enqueue("recover_stuck_quotes")
        # By this task, or by one of the schedule, which may fire at this moment.
        await eventually_async(partial(_was_recovered, app, stuck), within_seconds=60.0)
        market.mend()
        found = [(await ended(operations, one)).attempt_number for one in (stuck, slow)]
    assert found == [2, 1]
    paid_once(market, analyses=2, searches=2)


async def test_quotes_older_than_a_day_end_with_an_error(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q4: at 04:00, also between two attempts; a retry pays nothing again."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    old, young, waiting = (await operations.submit([CHAIR] * 3)).ids
    async with runner_in(app):
        for quote_id in (old, young, waiting):
            await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
    await change(app, AGE, id=old, age="25 hours")
    await change(app, AGE, id=young, age="23 hours")
    await change(app, AGE, id=waiting, age="25 hours")
    async with runner_in(app):
        for quote_id in (old, young, waiting):
            await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        await change(app, DUE, name="cleanup_old_processing")
        assert sorted(
            (await result_of(app, "cleanup_old_processing"))["marked_as_error"]
        ) == sorted([old, waiting])
        found = await operations.get(old)
        assert (found.status, found.error_code) == ("ERROR", "EXPIRED")
        market.mend()
        assert (await ended(operations, young)).status == "DONE"
        await app.retry(old)
        assert (await ended(operations, old)).status == "DONE"
    paid_once(market, analyses=3, searches=3)


async def test_a_quote_that_waits_for_its_next_attempt_for_a_day_ends_too(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q4: endless throttling ends, too."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.THROTTLED, retry_after=3600)
    (quote_id,) = (await operations.submit([CHAIR])).ids

    async def throttled() -> bool:
        task = await app.get(quote_id)
        return (task.status, task.error_code) == ("queued", "HTTP_429")

    async with runner_in(app):
        assert await eventually_async(throttled)
        assert (await operations.get(quote_id)).status == "PROCESSING"
        await change(app, AGE, id=quote_id, age="25 hours")
        await app.enqueue("cleanup_old_processing")
        assert await result_of(app, "cleanup_old_processing") == {"marked_as_error": [quote_id]}
    assert (await operations.get(quote_id)).status == "ERROR"


async def test_the_figures_of_the_specification_show_quotes(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q5, Q9: stuck_count, average time and by_checkpoint, in the API and in the metrics."""
    async with served(app, ApiConfig()) as api, runner_in(app):
        (done,) = (await operations.submit([CHAIR])).ids
        await ended(operations, done)
        market.break_with(Route.PAGE, MarketFaultKind.HANG)
        (stuck,) = (await operations.submit([CHAIR])).ids
        await standing_at(operations, stuck, "PRICE_EXTRACTION_START")
        await change(app, AGE, id=stuck, age="11 minutes")
        await figures(api, stuck)
        market.mend()
        await ended(operations, stuck)


async def figures(api: Served, stuck: int) -> None:
    stats = body_of(
        await api.viewer.get("/api/system/processing-stats", params={"pipeline": "quotes"})
    )
    assert (stats["total_processing"], stats["stuck_count"], stats["by_checkpoint"]) == (
        1,
        1,
        {"PRICE_EXTRACTION_START": 1},
    )
    assert stats["avg_processing_time_seconds"] > 0
    listed = body_of(await api.viewer.get("/api/system/stuck-quotes"))
    assert [(one["id"], one["processing_checkpoint"]) for one in listed["quotes"]] == [
        (stuck, "PRICE_EXTRACTION_START")
    ]
    text = (await api.viewer.get("/metrics")).text
    for line in (
        'regente_tasks_stuck{pipeline="quotes"} 1.0',
        'regente_tasks_at_checkpoint{checkpoint="PRICE_EXTRACTION_START",pipeline="quotes"} 1.0',
        'regente_task_duration_average_seconds{pipeline="quotes"}',
    ):
        assert line in text, text
    assert body_of(await api.operator.post(f"/api/system/recover-quote/{stuck}"))["ids"] == [stuck]
