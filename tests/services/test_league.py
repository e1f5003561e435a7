"""The sandbox's league: a calendar that the seed decides, and faults with a scope."""

from __future__ import annotations

import httpx2

from regente.pipelines.rounds.standins.league import League
from regente.pipelines.rounds.standins.league_calendar import ROUNDS, TEAMS, Calendar
from regente.services.sandbox import Sandbox


def test_every_team_meets_every_other_twice_once_at_home() -> None:
    """38 rounds of 10 matches, each team once in each."""
    calendar = Calendar(1)
    pairs = [
        (match.home[0], match.away[0])
        for number in range(1, ROUNDS + 1)
        for match in calendar.round("l", number)
    ]
    assert len(pairs) == len(set(pairs)) == len(TEAMS) * (len(TEAMS) - 1)
    for number in range(1, ROUNDS + 1):
        teams = [
            team for match in calendar.round("l", number) for team in (match.home[0], match.away[0])
        ]
        assert len(teams) == len(set(teams)) == len(TEAMS)


async def test_the_same_seed_plays_the_same_matches_and_another_does_not() -> None:
    """The same seed gives the same matches over HTTP."""

    async def pages(seed: int) -> list[str]:
        async with (
            Sandbox(proxies=0, seed=seed, standins=[League(seed)]) as place,
            httpx2.AsyncClient(base_url=place.url, trust_env=False) as client,
        ):
            return [
                (await client.get(f"/league/l/{path}")).text
                for path in ("rounds/5", f"matches/{some_match()}")
            ]

    first, again, other = await pages(3), await pages(3), await pages(4)
    assert first == again
    assert (first[0] == other[0], first[1] == other[1]) == (True, False)


async def test_faults_are_switched_over_http_and_strike_one_match_so_often() -> None:
    """Faults by match and by count; a cleared fault ends; calls are counted."""
    async with (
        Sandbox(proxies=0, seed=3, standins=[League(3)]) as place,
        httpx2.AsyncClient(base_url=place.url, trust_env=False) as client,
    ):
        path = f"/league/l/matches/{some_match()}"
        made = await client.post(
            "/league/admin/faults",
            json={"kind": "unavailable", "match_id": some_match(), "count": 1},
        )
        assert made.status_code == 201
        assert [(await client.get(path)).status_code for _ in range(2)] == [503, 200]
        await client.post("/league/admin/faults", json={"kind": "not_found"})
        assert (
            (await client.get(path)).status_code,
            (await client.get("/league/l/rounds/1")).status_code,
        ) == (404, 200)
        assert len((await client.get("/league/admin/faults")).json()) == 1
        assert (await client.delete("/league/admin/faults")).json() == {"cleared": 1}
        assert (await client.get(path)).status_code == 200
        for wrong in (
            "/league/l/rounds/39",
            "/league/L/rounds/1",
            "/league/l/matches/none",
            "/league/l/matches/r99-a-x-b",
        ):
            assert (await client.get(wrong)).status_code == 404, wrong
        assert (
            await client.post("/league/admin/faults", json={"kind": "nothing"})
        ).status_code == 422
        counted = (await client.get("/standins")).json()["/league"]
        assert (counted[f"match {some_match()}"], counted["round 1"]) == (4, 2)


def some_match() -> str:
    return Calendar(3).round("l", 5)[0].id
