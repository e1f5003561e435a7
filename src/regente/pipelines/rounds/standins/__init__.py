"""The league's site in the sandbox."""

from __future__ import annotations

from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox.standin import Standin


def standins(seed: int) -> list[Standin]:
    return [League(seed)]
