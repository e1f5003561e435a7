"""The schedule of faults, drawn from a seed: one seed gives the same faults, targets and times."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "kill runner",
    "pause runner",
    "deploy runner",
    "end backend",
    "kill backend",
    "kill postmaster",
    "fail over",
]

RUNNERS = 3
LEASE_SECONDS = 3.0
HEARTBEAT_SECONDS = 0.5
SWEEP_SECONDS = 1.0
FIRST_FAULT_SECONDS = 2.5
# How often each kind is drawn, beyond the one of each that a run of seven or more always has.
WEIGHTS: dict[Kind, int] = {
    "kill runner": 40,
    "pause runner": 22,
    "deploy runner": 8,
    "end backend": 16,
    "kill backend": 7,
    "kill postmaster": 7,
    "fail over": 8,
}


@dataclass(frozen=True, slots=True)
class Fault:
    at_seconds: float
    kind: str
    runner: int
    seconds: float  # how long the target stays away
    pick: int  # which of the backends found at that moment

    def __str__(self) -> str:
        target = f" {self.runner}" if self.kind.endswith("runner") else ""
        return f"{self.at_seconds:7.2f} s  {self.kind}{target}, away for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    tasks: int
    faults: tuple[Fault, ...]

    @property
    def feed_seconds(self) -> float:
        """Tasks are enqueued until the last fault."""
        return self.faults[-1].at_seconds if self.faults else 5.0


def make_plan(seed: int, tasks: int, kills: int) -> Plan:
    dice = random.Random(seed)
    kinds = [*get_args(Kind)][:kills] if kills >= len(get_args(Kind)) else []
    kinds += dice.choices([*WEIGHTS], weights=[*WEIGHTS.values()], k=kills - len(kinds))
    dice.shuffle(kinds)
    gap_seconds = 3.5 if kills <= 10 else 7.0
    faults: list[Fault] = []
    at_seconds = FIRST_FAULT_SECONDS
    paused_until = [0.0] * RUNNERS
    for kind in kinds:
        at_seconds += gap_seconds * dice.uniform(0.6, 1.4) if faults else 0
        # A runner that is paused already is no target; the others are.
        runner = dice.choice(
            [number for number in range(RUNNERS) if paused_until[number] < at_seconds]
        )
        seconds = _away_seconds(kind, dice)
        if kind == "pause runner":
            paused_until[runner] = at_seconds + seconds + 1.0
        faults.append(
            Fault(round(at_seconds, 2), kind, runner, round(seconds, 2), dice.randrange(10**6))
        )
    return Plan(seed, tasks, tuple(faults))


def _away_seconds(kind: Kind, dice: random.Random) -> float:
    if kind == "pause runner":
        return LEASE_SECONDS + SWEEP_SECONDS + dice.uniform(0.5, 2.0)
    if kind in ("end backend", "kill backend"):
        return 0.0
    return dice.uniform(0.1, 1.5)
