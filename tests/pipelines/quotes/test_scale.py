"""The small form of `python -m benchmarks.quotes`: many quotes, several runners, some killed."""

from __future__ import annotations

from pathlib import Path

from benchmarks.quotes import Plan, campaign

from regente.services.sandbox import Sandbox
from tests.pipelines.quotes.processes import audited


async def test_nothing_is_lost_or_paid_for_twice_while_runners_die(
    database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Q8: all terminal, none lost, every order paid for once, within the pool of connections."""
    plan = Plan(
        quotes=120, processes=2, concurrency=20, connections=20, kills=2, give_up_seconds=120.0
    )
    outcome = await campaign(plan, database_url, sandbox.url, tmp_path)
    assert outcome.is_sound(plan), outcome
    assert outcome.kills == 2
    assert audited(database_url) == []
