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
        quotes=120, processes=2, concurrency=20, connections=25, kills=2, give_up_seconds=300.0
    )
    outcome = await campaign(plan, database_url, sandbox.url, tmp_path)
    assert outcome.is_sound(plan), outcome
    assert outcome.kills == 2
    assert audited(database_url) == []


async def test_held_calls_are_not_repeated_while_runners_die(
    database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Q6, Q8: nothing is paid for twice without keys, either; those in doubt wait for a person."""
    plan = Plan(
        quotes=60,
        processes=2,
        concurrency=20,
        connections=25,
        kills=3,
        ignored_keys=1,
        hold=1,
        answer_ms=100,
        give_up_seconds=300.0,
    )
    outcome = await campaign(plan, database_url, sandbox.url, tmp_path)
    assert outcome.is_sound(plan), outcome
    assert outcome.kills == 3
    assert outcome.paid_more_than_once == 0
    assert audited(database_url) == []


async def test_a_provider_without_keys_is_called_again_for_killed_attempts_only(
    database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Q8: all terminal, none lost; at most one call repeated for each attempt that a kill ended."""
    plan = Plan(
        quotes=60,
        processes=2,
        concurrency=20,
        connections=25,
        kills=3,
        ignored_keys=1,
        answer_ms=100,
        give_up_seconds=300.0,
    )
    outcome = await campaign(plan, database_url, sandbox.url, tmp_path)
    assert outcome.is_sound(plan), outcome
    assert outcome.kills == 3
    assert audited(database_url) == []


async def test_five_processes_of_twenty_keep_to_fifty_connections(
    database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Q8: with the default settings, those of the submitting program included."""
    plan = Plan(quotes=100, processes=5, concurrency=20, kills=0, give_up_seconds=300.0)
    outcome = await campaign(plan, database_url, sandbox.url, tmp_path)
    assert outcome.is_sound(plan), outcome
    assert outcome.most_connections <= plan.connections == 50
