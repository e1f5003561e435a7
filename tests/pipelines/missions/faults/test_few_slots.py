"""A runner with fewer slots than the fleet has workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from regente import InvalidInput, Regente
from tests.pipelines.missions.faults.conftest import environment_with, missions_on
from tests.pipelines.missions.faults.runner_processes import ForkServer


async def test_drivers_leave_room_for_the_missions_that_they_wait_for(
    app: Regente, forkserver: ForkServer, tmp_path: Path
) -> None:
    """O7: more workers than slots is slow, without a deadlock."""
    async with environment_with(app, forkserver, tmp_path, workers=3, proxies=3) as env:
        await app.missions.create(missions_on(6), queue=True)
        env.runner(concurrency=3)
        await env.all_ended()
        await env.at_rest()
        assert await env.statuses() == ["completed"] * 6


async def test_too_few_slots_for_any_mission_are_refused(app: Regente) -> None:
    app.conduct_missions()
    with pytest.raises(InvalidInput, match="concurrency of 3 or more"):
        await app.run(concurrency=2)
