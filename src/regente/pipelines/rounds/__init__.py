"""Rounds of a league: a task discovers a round's matches, one task each scrapes and stores them."""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.builtin import Builtin

BUILTIN = Builtin(
    package=__name__,
    pipelines=("rounds", "matches"),
    migrations=Path(__file__).parent / "migrations",
    commands={"rounds": "regente.pipelines.rounds.cli"},
    api="regente.pipelines.rounds.api",
    additions="regente.pipelines.rounds.api.additions",
    tags={
        "rounds": "A league's rounds and their matches.",
        "scrape": "Endpoints of the rounds' specification.",
    },
    standins="regente.pipelines.rounds.standins",
    page="rounds",
)
