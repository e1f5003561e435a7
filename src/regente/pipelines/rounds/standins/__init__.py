"""Two leagues' sites in the sandbox, built differently."""

from __future__ import annotations

from regente.pipelines.rounds.standins.league import League
from regente.pipelines.rounds.standins.placar import Placar
from regente.services.sandbox.standin import Standin


def standins(seed: int) -> list[Standin]:
    return [League(seed), Placar(seed)]
