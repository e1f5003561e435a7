"""A small campaign on a cluster under Patroni in every test run (F1, F4, F6, F20; I1 to I10).
`make ha` runs a large one."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from tests.engine.faults.chaos.campaign import Campaign, new_folder
from tests.engine.faults.chaos.plan import Fault, Plan
from tests.engine.faults.ha.environment import FailingOver
from tests.engine.faults.ha.plan import ClusterKind, make_ha_plan
from tests.engine.faults.ha.programs import CannotInstallError

SMALL = Plan(
    7,
    600,
    (
        Fault(2.0, "kill runner", 0, 0.5, 0),
        Fault(3.0, "switchover", 0, 0.0, 0),
        Fault(12.0, "partition primary", 0, 26.0, 0),
    ),
)


@pytest.fixture
def environment() -> FailingOver:
    try:
        return FailingOver(new_folder())
    except CannotInstallError as error:
        pytest.skip(f"no cluster can be built here: {error}")


@pytest.mark.timeout(400)
async def test_no_task_is_lost_or_doubled_when_the_primary_changes(
    environment: FailingOver, caplog: pytest.LogCaptureFixture
) -> None:
    """F1, F4, F6, F20: switched over, then cut off from the other nodes and the runners."""
    caplog.set_level(logging.CRITICAL, logger="psycopg")
    said: list[str] = []
    findings = await Campaign(SMALL, said.append, environment).run()
    broken = [
        f"{finding.check}: {finding.detail} {finding.faults[:5]}"
        for finding in findings
        if not finding.holds
    ]
    assert not broken, "\n".join([*broken, *said])


def test_the_same_seed_gives_the_same_faults() -> None:
    assert make_ha_plan(5, 100, 8, 20) == make_ha_plan(5, 100, 8, 20)
    assert make_ha_plan(5, 100, 8, 20) != make_ha_plan(6, 100, 8, 20)


def test_every_kind_of_fault_is_drawn_before_one_comes_again() -> None:
    kinds = {*get_args(ClusterKind)}
    for seed in range(20):
        faults = make_ha_plan(seed, 100, len(kinds), 10).faults
        assert {fault.kind for fault in faults if "runner" not in fault.kind} == kinds
        assert sum("runner" in fault.kind for fault in faults) == 10
