"""The three alerts of the specification, judged by Prometheus on what `/metrics` shows of quotes
in these states."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regente import Regente
from regente.api.config import ApiConfig
from regente.pipelines.quotes.operations import QuoteOperations
from tests.api.conftest import Served, served
from tests.api.metrics.conftest import Samples, scrape
from tests.pipelines.quotes.conftest import CHAIR
from tests.support.promtool import firing, series_of

ALERTS = {
    "HighStuckQuotes": "warning",
    "SlowProcessing": "warning",
    "WorkerHealthCheck": "critical",
}
RUNNER = b"""
INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, lease_until,
                             heartbeat_at)
VALUES ('one', 'h', 1, '0', '{quotes}', 20, regente.clock() + interval '1 hour',
        regente.clock() - %(silent)s::interval)
"""
RUNS = b"""
UPDATE regente.tasks SET status = 'running', attempt = 1, started_at = regente.clock(),
  checkpoint = 'PRICE_EXTRACTION_PROGRESS', runner_id = (SELECT max(id) FROM regente.runners),
  heartbeat_at = regente.clock() - %(silent)s::interval
WHERE id = ANY (%(ids)s)
"""
# An attempt of so many seconds, and before it another one of a second that waited an hour.
COMPLETED = b"""
WITH done AS (
  UPDATE regente.tasks SET status = 'completed', runner_id = NULL, finished_at = regente.clock(),
    attempt = 2, started_at = regente.clock() - interval '1 hour' WHERE id = ANY (%(ids)s)
  RETURNING id)
INSERT INTO regente.events (task_id, attempt, event, at)
SELECT id, e.attempt, e.event, regente.clock() - make_interval(secs => e.ago)
FROM done, (VALUES (1, 'task_claimed', 3600), (1, 'task_throttled', 3599),
                   (2, 'task_claimed', %(seconds)s), (2, 'task_completed', 0))
  AS e (attempt, event, ago)
"""


@pytest.fixture
async def api(app: Regente) -> AsyncIterator[Served]:
    async with served(app, ApiConfig(metrics_seconds=0.0)) as found:
        yield found


async def change(app: Regente, text: bytes, **params: object) -> None:
    async with app.database.connection() as connection:
        await connection.execute(text, params, prepare=False)


async def quotes(app: Regente, count: int, *, silent: str) -> list[int]:
    """Quotes that a runner processes, and whose last heartbeat is so long ago."""
    ids = (await QuoteOperations(app).submit([CHAIR] * count)).ids
    await change(app, RUNS, ids=ids, silent=silent)
    return ids


async def judged(api: Served, folder: Path, *expected: str) -> Samples:
    """Asserts that of the specification's alerts just these fire."""
    scraped = await scrape(api)
    told = firing(series_of(scraped), {name: ALERTS[name] for name in expected}, folder)
    assert told is None, told
    return scraped


async def test_stuck_quotes_are_counted_and_nothing_else(
    api: Served, app: Regente, tmp_path: Path
) -> None:
    """Q9: HighStuckQuotes with more than ten."""
    await change(app, RUNNER, silent="1 second")
    await quotes(app, 10, silent="11 minutes")
    await quotes(app, 30, silent="9 minutes")
    scraped = await judged(api, tmp_path)
    assert scraped("regente_quotes_stuck") == 10
    assert scraped("regente_quotes", status="PROCESSING") == 40
    assert scraped("regente_quotes_at_checkpoint", checkpoint="PRICE_EXTRACTION_PROGRESS") == 40
    await quotes(app, 1, silent="11 minutes")
    assert (await judged(api, tmp_path, "HighStuckQuotes"))("regente_quotes_stuck") == 11


async def test_quotes_that_wait_are_not_slow(api: Served, app: Regente, tmp_path: Path) -> None:
    """Q9: SlowProcessing with an average above 120 s, without an hour between two attempts."""
    await change(app, RUNNER, silent="1 second")
    await change(app, COMPLETED, ids=await quotes(app, 2, silent="0"), seconds=100)
    scraped = await judged(api, tmp_path)
    assert 100 <= scraped("regente_quotes_processing_average_seconds") < 110
    assert scraped("regente_task_duration_average_seconds", pipeline="quotes") >= 3600
    await change(app, COMPLETED, ids=await quotes(app, 2, silent="0"), seconds=200)
    scraped = await judged(api, tmp_path, "SlowProcessing")
    assert 145 <= scraped("regente_quotes_processing_average_seconds") < 155


async def test_no_heartbeat_for_15_minutes_is_critical(
    api: Served, app: Regente, tmp_path: Path
) -> None:
    """Q9: WorkerHealthCheck, of the runner whose heartbeat is the latest."""
    await change(app, RUNNER, silent="16 minutes")
    assert (await judged(api, tmp_path, "WorkerHealthCheck"))(
        "regente_last_heartbeat_age_seconds"
    ) > 900
    await change(app, RUNNER, silent="14 minutes")
    await judged(api, tmp_path)
