"""A small campaign in every test run; `make missions-chaos` runs a large one."""

from __future__ import annotations

from pathlib import Path

from regente import Regente
from tests.pipelines.missions.faults.campaign import Campaign
from tests.pipelines.missions.faults.checker import faults_of, figures_of
from tests.pipelines.missions.faults.conftest import environment_with
from tests.pipelines.missions.faults.plan import make_plan
from tests.pipelines.missions.faults.runner_processes import ForkServer

SEED, MISSIONS, RUNNERS, KILLS = 11, 60, 2, 5


async def test_no_mission_is_lost_or_done_twice_while_runners_are_killed(
    app: Regente, forkserver: ForkServer, tmp_path: Path
) -> None:
    """F1, F5, F8, O7, O14, O15: each ends by its peers' answers; none is shared by two workers."""
    said: list[str] = [f"seed {SEED}"]
    async with environment_with(app, forkserver, tmp_path, workers=6, proxies=4) as env:
        campaign = Campaign(env, make_plan(SEED, MISSIONS, RUNNERS, KILLS), said.append)
        await campaign.run(timeout_seconds=60.0)
        faults = await faults_of(campaign)
        assert not faults, "\n".join([*said, str(figures_of(campaign)), *faults])


def test_the_same_seed_gives_the_same_plan() -> None:
    assert make_plan(5, 30, 3, 20) == make_plan(5, 30, 3, 20)
    assert make_plan(5, 30, 3, 20) != make_plan(6, 30, 3, 20)


def test_every_ending_is_in_a_big_plan() -> None:
    """A campaign must also exhaust retries."""
    for seed in range(5):
        endings = {
            plan.ending.error_code or plan.ending.status
            for plan in make_plan(seed, 300, 3, 20).missions.values()
        }
        assert endings >= {"completed", "ERROR304"}
        assert endings & {"ERROR104", "ERROR203"}
