"""Killed at every checkpoint and restarted: the quote ends as usual, and no call is paid twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from regente import Regente
from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import QuotesStandin
from regente.services.sandbox import Sandbox
from tests.pipelines.quotes.conftest import CHAIR, GOL, SHOPS, ended, paid_once
from tests.pipelines.quotes.processes import QuoteRunner, audited, expire_leases
from tests.support.running import runner_in

# Where the process kills itself, and the checkpoint that is committed then.
PRODUCT = [
    ("mark.committed:1", "INIT"),
    ("mark.committed:2", "AI_ANALYSIS_START"),
    ("step.before_record:3", "AI_ANALYSIS_START"),  # analysed and paid for, and the answer lost
    ("mark.committed:3", "AI_ANALYSIS_DONE"),
    ("mark.committed:4", "SHOPPING_SEARCH_START"),
    ("step.before_record:5", "SHOPPING_SEARCH_START"),  # searched and paid for, and the answer lost
    ("mark.committed:5", "SHOPPING_SEARCH_DONE"),
    ("mark.committed:6", "SHOPPING_SEARCH_DONE"),
    ("mark.committed:7", "SHOPPING_SEARCH_DONE"),  # a shop's page was looked up and paid for
    ("mark.committed:12", "SHOPPING_SEARCH_DONE"),
    ("mark.committed:13", "PRICE_EXTRACTION_START"),
    ("mark.committed:14", "PRICE_EXTRACTION_PROGRESS"),
    ("mark.committed:17", "PRICE_EXTRACTION_PROGRESS"),
    ("mark.committed:20", "PRICE_EXTRACTION_DONE"),
    ("mark.committed:21", "FINALIZATION"),
    ("transaction.before_commit", "FINALIZATION"),
    ("transaction.committed", "COMPLETED"),
    ("finish.before", "COMPLETED"),
]
VEHICLE = [
    ("mark.committed:4", "FIPE_SEARCH"),
    ("mark.committed:5", "FIPE_SEARCH"),
    ("mark.committed:6", "FINALIZATION"),
]
CASES = [(CHAIR, *one) for one in PRODUCT] + [(GOL, *one) for one in VEHICLE]
ONE_BY_ONE = {"REGENTE_QUOTES_PRODUCTS_AT_ONCE": "1"}


def test_every_checkpoint_has_its_kill() -> None:
    """Q2: each new checkpoint needs a kill."""
    assert {checkpoint for _, _, checkpoint in CASES} == {*Checkpoint}


@pytest.mark.parametrize(
    ("args", "point", "checkpoint"),
    CASES,
    ids=[f"{args.description[:3]}-{at}" for args, at, _ in CASES],
)
async def test_a_kill_at_a_checkpoint_loses_nothing_and_pays_nothing_twice(
    args: QuoteArgs,
    point: str,
    checkpoint: str,
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q2, Q6, Q12 (crash): SIGKILL there, another runner ends it; the provider counts calls."""
    (quote_id,) = (await operations.submit([args])).ids
    with QuoteRunner(
        database_url,
        sandbox.url,
        tmp_path,
        environment={"REGENTE_CRASH_POINT": point, **ONE_BY_ONE},
    ) as crashing:
        assert await asyncio.to_thread(crashing.wait) == -signal.SIGKILL, crashing.said()
    before = await operations.get(quote_id)
    assert (before.status, before.processing_checkpoint) == ("PROCESSING", checkpoint)
    assert before.worker_id is not None
    expire_leases(database_url)
    async with runner_in(app):
        after = await ended(operations, quote_id)
    assert (after.status, after.processing_checkpoint, after.attempt_number) == (
        "DONE",
        "COMPLETED",
        2,
    )
    paid_once(market, analyses=1, searches=int(args is CHAIR))
    assert len(after.sources) == (SHOPS if args is CHAIR else 1)
    tested = [one for one in before.checkpoints if one.checkpoint == "PRICE_EXTRACTION_PROGRESS"]
    assert [one for one in after.checkpoints if one in tested] == tested, (
        "what was tested is not tested again"
    )
    assert market.calls["page"] <= SHOPS + 1
    assert audited(database_url) == []
