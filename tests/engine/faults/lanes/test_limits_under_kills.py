"""The small form of `python -m tests.engine.faults.lanes`: five runners, two kills, and a target
that counts by itself."""

from __future__ import annotations

import pytest

from tests.engine.faults.lanes import pipelines as _registered  # noqa: F401 - for the client
from tests.engine.faults.lanes.campaign import LANES, exceeded, run
from tests.engine.faults.lanes.pipelines import LIMIT

TASKS = 400


@pytest.mark.timeout(240)
async def test_no_lane_exceeds_its_limit_when_runners_are_killed(database_url: str) -> None:
    """F1, Q2: the target never sees more than the limit, and nothing is lost."""
    found = await run(database_url, tasks=TASKS, paced=40, kills=2, kill_every=0.4)
    assert exceeded(found) == []
    assert found.left == 0
    assert sum(most == LIMIT for lane, most in found.most.items() if lane != "paced") == LANES
    assert sum(found.counts.values()) >= TASKS + 40
