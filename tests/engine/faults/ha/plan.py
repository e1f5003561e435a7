"""The schedule of a campaign with failovers, drawn from a seed: faults of the cluster one after the
other, beside those of the runners."""

from __future__ import annotations

import random
from typing import Literal, get_args

from tests.engine.faults.chaos.plan import Fault, Plan, make_plan
from tests.engine.faults.ha.cluster import TTL_SECONDS

ClusterKind = Literal[
    "switchover", "kill primary", "partition primary", "mute primary", "kill standby"
]
# The next fault of the cluster begins when it has recovered from the one before, but no sooner.
GAP_SECONDS = 45.0
FIRST_SECONDS = 5.0
RUNNER_KINDS = ("kill runner", "pause runner", "deploy runner")


def make_ha_plan(seed: int, tasks: int, failovers: int, kills: int) -> Plan:
    dice = random.Random(seed)
    kinds: list[ClusterKind] = []
    while len(kinds) < failovers:  # each kind before any comes again
        every = [*get_args(ClusterKind)]
        dice.shuffle(every)
        kinds += every[: failovers - len(kinds)]
    faults = [
        Fault(
            round(FIRST_SECONDS + number * GAP_SECONDS + dice.uniform(0, 5), 2),
            kind,
            0,
            _away_seconds(kind, dice),
            0,
        )
        for number, kind in enumerate(kinds)
    ]
    faults += _runner_faults(seed, kills, until=faults[-1].at_seconds if faults else 0.0)
    return Plan(seed, tasks, tuple(sorted(faults, key=lambda fault: fault.at_seconds)))


def _away_seconds(kind: ClusterKind, dice: random.Random) -> float:
    """Longer than Patroni waits for a primary, so that another node takes over."""
    if kind == "switchover":
        return 0.0
    if kind == "kill standby":
        return round(dice.uniform(1, 5), 2)
    return round(TTL_SECONDS + dice.uniform(5, 10), 2)


def _runner_faults(seed: int, kills: int, until: float) -> list[Fault]:
    """The runners' faults of the ordinary campaign, spread over the time of this one."""
    found = [fault for fault in make_plan(seed, 0, 4 * kills).faults if "runner" in fault.kind]
    found = found[:kills]
    if not found:
        return []
    stretch = max(1.0, until / found[-1].at_seconds)
    return [
        Fault(
            round(fault.at_seconds * stretch, 2),
            fault.kind,
            fault.runner,
            fault.seconds,
            fault.pick,
        )
        for fault in found
    ]
