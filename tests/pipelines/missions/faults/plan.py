"""The peers' answers and the process faults, drawn from one seed, and how each mission must end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from tests.pipelines.missions.faults.conftest import LEASE_SECONDS, SWEEP_SECONDS, missions_on
from tests.pipelines.missions.faults.peers import COMPLETED, STUCK, JobScript
from tests.support.peers import stored

ProcessFaultKind = Literal["kill", "pause", "deploy"]
WEIGHTS: dict[ProcessFaultKind, int] = {"kill": 50, "pause": 30, "deploy": 20}
MAX_RETRIES = 2
FIRST_FAULT_SECONDS = 1.5
GAP_SECONDS = 1.3
ENOUGH = 12  # jobs of one mission; more are never needed

SCRAPES: dict[str, int] = {"completed": 74, "failed": 9, "stuck": 7, "throttled": 5, "empty": 5}
STORAGES: dict[str, int] = {"completed": 78, "partial": 12, "failed": 10}
SCRAPE_WORDS: dict[str, dict[str, Any]] = {
    "completed": COMPLETED,
    "failed": {"status": "failed", "problem": {"cause": "layout", "message": "told to"}},
    "stuck": {"status": STUCK},
    "throttled": {
        "status": "failed",
        "problem": {"cause": "throttled", "message": "told to", "retry_after": 0.1},
    },
    "empty": {"status": "empty", "ads_count": 0},
}
STORAGE_WORDS = {
    "completed": stored(3),
    "partial": stored(2, failed=1),
    "failed": stored(0, status="failed", error="told to"),
}


@dataclass(frozen=True, slots=True)
class Ending:
    status: str
    error_code: str | None = None
    ads_count: int | None = None
    scrapes: int = 1  # jobs that live out their script
    storages: int = 0  # jobs that the writer is given
    stored: int = 0  # of them, those that store something


@dataclass(frozen=True, slots=True)
class MissionPlan:
    """The scripts of its jobs, in order. A job that is cut short leaves its script to the next."""

    scrapes: tuple[tuple[str, float], ...]
    storages: tuple[tuple[str, float], ...]

    def scrape(self, number: int) -> JobScript:
        kind, seconds = self.scrapes[number]
        return JobScript(seconds, SCRAPE_WORDS[kind])

    def storage(self, number: int) -> JobScript:
        kind, seconds = self.storages[number]
        return JobScript(seconds, STORAGE_WORDS[kind])

    @property
    def ending(self) -> Ending:
        """By the rules of 7.2: two retries in all, and one retry of a writer's `failed`."""
        retries = 0
        for scrapes, (kind, _) in enumerate(self.scrapes, 1):
            if kind == "empty":
                return Ending("completed", None, 0, scrapes)
            if kind == "completed":
                return self._stored(scrapes, retries)
            if kind in ("failed", "stuck"):
                if retries == MAX_RETRIES:
                    return Ending(
                        "failed", "ERROR104" if kind == "stuck" else "ERROR203", None, scrapes
                    )
                retries += 1
        raise AssertionError("a plan is long enough")

    def _stored(self, scrapes: int, retries: int) -> Ending:
        for storages, (kind, _) in enumerate(self.storages, 1):
            if kind != "failed":
                return Ending("completed", None, 3, scrapes, storages, 1)
            if retries == MAX_RETRIES or storages == 2:
                return Ending("failed", "ERROR304", 3, scrapes, storages)
            retries += 1
        raise AssertionError("a plan is long enough")


@dataclass(frozen=True, slots=True)
class ProcessFault:
    at_seconds: float
    kind: ProcessFaultKind
    target: int
    seconds: float  # how long it stays away

    def __str__(self) -> str:
        return f"{self.at_seconds:6.2f} s  {self.kind} {self.target}, away for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    runners: int
    missions: dict[date, MissionPlan]
    process_faults: tuple[ProcessFault, ...]

    @property
    def feed_seconds(self) -> float:
        return self.process_faults[-1].at_seconds if self.process_faults else 1.0


def make_plan(seed: int, missions: int, runners: int, kills: int) -> Plan:
    dice = random.Random(seed)
    planned = {args.date_start: _mission(dice) for args in missions_on(missions)}
    return Plan(seed, runners, planned, tuple(_process_faults(dice, runners, kills)))


def _mission(dice: random.Random) -> MissionPlan:
    # Some have bad luck all along, so that retries do run out.
    unlucky = dice.random() < 0.05
    scrapes = dict(SCRAPES, failed=60, stuck=30) if unlucky else SCRAPES
    storages = dict(STORAGES, failed=200) if dice.random() < 0.05 else STORAGES
    return MissionPlan(
        tuple((kind, dice.uniform(0.2, 1.2)) for kind in [*_drawn(dice, scrapes), "completed"]),
        tuple((kind, dice.uniform(0.05, 0.5)) for kind in [*_drawn(dice, storages), "completed"]),
    )


def _drawn(dice: random.Random, weights: dict[str, int]) -> list[str]:
    return dice.choices([*weights], weights=[*weights.values()], k=ENOUGH)


def _process_faults(dice: random.Random, runners: int, kills: int) -> list[ProcessFault]:
    kinds = [*get_args(ProcessFaultKind)][:kills]
    kinds += dice.choices([*WEIGHTS], weights=[*WEIGHTS.values()], k=kills - len(kinds))
    dice.shuffle(kinds)
    free_at = [0.0] * runners
    process_faults: list[ProcessFault] = []
    at_seconds = FIRST_FAULT_SECONDS
    for kind in kinds:
        target = min(
            range(runners), key=lambda number: (free_at[number] > at_seconds, dice.random())
        )
        at_seconds = max(at_seconds, free_at[target])
        away = (
            LEASE_SECONDS + SWEEP_SECONDS + dice.uniform(0.3, 1.5)
            if kind == "pause"
            else dice.uniform(0.0, 1.0)
        )
        process_faults.append(ProcessFault(round(at_seconds, 2), kind, target, round(away, 2)))
        free_at[target] = at_seconds + away + 1.0
        at_seconds += GAP_SECONDS * dice.uniform(0.4, 1.6)
    return process_faults
