"""The league's matches and their events, generated from the seed."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

TEAMS = (
    ("aurora", "Aurora"),
    ("barra-funda", "Barra Funda"),
    ("caravelas", "Caravelas"),
    ("diamante", "Diamante"),
    ("estrela-do-sul", "Estrela do Sul"),
    ("ferroviario", "Ferroviário"),
    ("guarani-do-norte", "Guarani do Norte"),
    ("horizonte", "Horizonte"),
    ("ipiranga", "Ipiranga"),
    ("jacaranda", "Jacarandá"),
    ("litoral", "Litoral"),
    ("mangueira", "Mangueira"),
    ("nautico", "Náutico & Remo"),
    ("operario", "Operário"),
    ("pantanal", "Pantanal"),
    ("quilombo", "Quilombo"),
    ("riacho", "Riacho"),
    ("serrano", "Serrano"),
    ("tamoio", "Tamoio"),
    ("vale-verde", "Vale Verde"),
)
ROUNDS = 2 * (len(TEAMS) - 1)
LEAGUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
STATS = (
    "possession",
    "shots",
    "shots-on-target",
    "passes",
    "fouls",
    "corners",
    "offsides",
    "saves",
)
PLAYERS = (
    "Ada",
    "Bento",
    "Caio",
    "Davi",
    "Elias",
    "Fabinho",
    "Gérson",
    "Heitor",
    "Iago",
    "João <10>",
    "Kauã",
    "Luan",
)
FIRST_DAY = datetime(2025, 3, 29, 19, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    minute: int
    kind: str
    side: str
    player: str


@dataclass(frozen=True, slots=True)
class Match:
    id: str
    league: str
    round: int
    home: tuple[str, str]
    away: tuple[str, str]
    kickoff: datetime
    venue: str
    attendance: int
    events: tuple[Event, ...]
    stats: tuple[tuple[str, str, int], ...]

    @property
    def goals(self) -> tuple[int, int]:
        return self._goals("home"), self._goals("away")

    def _goals(self, side: str) -> int:
        return sum(
            (one.kind == "goal" and one.side == side)
            or (one.kind == "own_goal" and one.side != side)
            for one in self.events
        )


class Calendar:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._played = lru_cache(maxsize=2000)(self._play)

    def round(self, league: str, number: int) -> list[Match]:
        return [self._played(league, number, place) for place in range(len(TEAMS) // 2)]

    def match(self, league: str, match_id: str) -> Match | None:
        found = re.fullmatch(r"r([0-9]{1,2})-([a-z-]+)-x-([a-z-]+)", match_id)
        if found is None or not 1 <= int(found[1]) <= ROUNDS:
            return None
        return next(
            (match for match in self.round(league, int(found[1])) if match.id == match_id), None
        )

    def _play(self, league: str, number: int, place: int) -> Match:
        home, away = _pairing(number, place)
        seed = hashlib.blake2b(f"{self._seed}/{league}/{number}/{place}".encode()).digest()
        dice = random.Random(seed)  # noqa: S311 - a game
        count = dice.randint(2, 12)
        kinds = (
            "goal",
            "goal",
            "own_goal",
            "yellow_card",
            "yellow_card",
            "red_card",
            "substitution",
            "substitution",
        )
        events = tuple(
            Event(
                minute,
                dice.choices(kinds, (6, 6, 1, 6, 6, 1, 6, 6))[0],
                dice.choice(("home", "away")),
                dice.choice(PLAYERS),
            )
            for minute in sorted(dice.randint(1, 95) for _ in range(count))
        )
        possession = dice.randint(30, 70)
        stats = [("possession", "home", possession), ("possession", "away", 100 - possession)]
        stats += [
            (name, side, dice.randint(0, 30)) for name in STATS[1:] for side in ("home", "away")
        ]
        kickoff = FIRST_DAY + timedelta(days=7 * (number - 1), hours=place % 3)
        match_id = f"r{number}-{home[0]}-x-{away[0]}"
        return Match(
            match_id,
            league,
            number,
            home,
            away,
            kickoff,
            f"Estádio {home[1]}",
            dice.randint(800, 60_000),
            events,
            tuple(stats),
        )


def _pairing(number: int, place: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """The circle method: one team stays, the others rotate; the second half swaps home and away."""
    half = len(TEAMS) - 1
    turn = (number - 1) % half
    ring = (TEAMS[0], *(TEAMS[1 + (index + turn) % half] for index in range(half)))
    pair = (ring[place], ring[-1 - place])
    return pair if (number > half) == bool(place % 2) else (pair[1], pair[0])
