"""A small campaign in every test run, one fault of each kind (F1, F3, F4, F5, F20; I1 to I10).
`make chaos` runs a large one."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import get_args

import pytest

from tests.engine.faults.chaos.campaign import Campaign, new_folder
from tests.engine.faults.chaos.environment import TwoServers
from tests.engine.faults.chaos.plan import Kind, make_plan

SEED, TASKS, FAULTS = 7, 2000, 7


@pytest.mark.timeout(180)
async def test_no_task_is_lost_doubled_or_late_under_all_faults(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F1, F3, F4, F5, F20."""
    caplog.set_level(logging.CRITICAL, logger="psycopg")
    said: list[str] = []
    findings = await Campaign(
        make_plan(SEED, TASKS, FAULTS), said.append, TwoServers(new_folder())
    ).run()
    broken = [
        f"{finding.check}: {finding.detail} {finding.faults[:5]}"
        for finding in findings
        if not finding.holds
    ]
    assert not broken, "\n".join([f"seed {SEED}", *broken, *said])


def test_the_same_seed_gives_the_same_faults() -> None:
    assert make_plan(5, 100, 50) == make_plan(5, 100, 50)
    assert make_plan(5, 100, 50) != replace(make_plan(6, 100, 50), seed=5)


def test_every_kind_of_fault_is_in_every_plan() -> None:
    for seed in range(20):
        assert {fault.kind for fault in make_plan(seed, 100, 7).faults} == set(get_args(Kind))


def test_at_least_one_runner_is_never_paused() -> None:
    """Recovery time can only be measured while a runner is there to recover tasks."""
    for seed in range(50):
        faults = make_plan(seed, 100, 50).faults
        for fault in faults:
            asleep = {
                other.runner
                for other in faults
                if other.kind == "pause runner"
                and other.at_seconds <= fault.at_seconds < other.at_seconds + other.seconds
            }
            assert len(asleep) < 3
