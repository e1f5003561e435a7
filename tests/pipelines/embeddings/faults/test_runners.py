"""Three runners as processes: every task and every content once, also when runners are killed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from regente import Regente
from regente.pipelines.embeddings.operations import EmbeddingOperations
from regente.pipelines.embeddings.standins.openai_embeddings import OpenAiEmbeddings
from regente.services.sandbox.sandbox import Sandbox
from tests.pipelines.embeddings.conftest import ended, rows, stored, with_settings
from tests.pipelines.embeddings.faults.campaign import Plan, run
from tests.pipelines.embeddings.processes import runners
from tests.support.eventually import eventually_async

logger = logging.getLogger(__name__)


@with_settings(texts_per_task=1)
async def test_a_hundred_tasks_and_three_runners_are_a_hundred_embeddings(
    app: Regente,
    operations: EmbeddingOperations,
    provider: OpenAiEmbeddings,
    sandbox: Sandbox,
    database_url: str,
) -> None:
    """S8: exactly 100. S3: claimed in batches. S6: the runners' counters add up to it."""
    texts = [f"job number {number}" for number in range(100)]
    with runners(database_url, f"{sandbox.url}/openai/v1", JOB_LOCK_TTL_MS="60000") as fleet:

        async def all_there() -> bool:
            return len([one for one in await app.runners() if one.alive]) == 3

        await eventually_async(all_there, within_seconds=60)
        added = await operations.add(texts)
        batch = await ended(app, added.batch_id, within_seconds=60)
        assert (batch.total, batch.completed, batch.failed) == (100, 100, 0), fleet.said()

        async def counted() -> bool:
            return sum(one.completed for one in await app.runners(everyone=True)) == 100

        await eventually_async(counted)
    assert set(await stored(app)) == set(texts)
    assert provider.calls["texts"] == provider.calls["calls"] == 100
    (events,) = await rows(
        app,
        "SELECT count(*) AS all, count(DISTINCT task_id) AS tasks FROM events WHERE event "
        "= 'task_completed'",
    )
    assert (events["all"], events["tasks"]) == (100, 100)
    found = await app.runners(everyone=True)
    assert sum(one.claimed for one in found) == 100
    assert all(one.average_seconds is not None for one in found if one.completed)


@pytest.mark.parametrize("honours_keys", [True, False], ids=["honoured keys", "ignored keys"])
async def test_runners_that_are_killed_leave_exactly_one_vector_for_each_content(
    database_url: str, honours_keys: bool
) -> None:
    """S8 in small (the module `campaign` is the large one); S4: tasks of killed runners rerun."""
    plan = Plan(seed=7, texts=600, kills=3, texts_per_task=5, honours_keys=honours_keys)
    outcome = await run(plan, database_url, logger.info)
    assert outcome.faults == []
    assert (outcome.figures["contents"], outcome.figures["vectors"], outcome.figures["kills"]) == (
        480,
        480,
        3,
    )


@pytest.mark.parametrize("point", ["transaction.before_commit", "transaction.committed"])
async def test_a_runner_that_dies_at_the_commit_pays_once(
    app: Regente,
    operations: EmbeddingOperations,
    provider: OpenAiEmbeddings,
    sandbox: Sandbox,
    database_url: str,
    point: str,
) -> None:
    """S5, F2: vectors and step commit together or not at all; a repeated call is free."""
    added = await operations.add([f"text {number}" for number in range(10)])
    url = f"{sandbox.url}/openai/v1"
    # The first transaction reserves, the second stores.
    with runners(database_url, url, 1, REGENTE_CRASH_POINT=f"{point}:2") as dying:
        assert await asyncio.to_thread(dying.processes[0].wait, 60) == -9, dying.said()
    assert len(await stored(app)) == (10 if point == "transaction.committed" else 0)
    with runners(database_url, url, 1) as second:
        batch = await ended(app, added.batch_id, within_seconds=60)
        assert batch.completed == 1, second.said()
    assert len(await stored(app)) == 10
    assert set(provider.charged.values()) == {1}
