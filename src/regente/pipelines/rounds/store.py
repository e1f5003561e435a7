"""Stores a match with its teams, events and stats, in one transaction."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from regente.pipelines.rounds.args import MatchArgs
from regente.pipelines.rounds.models import MatchSheet
from regente.pipelines.rounds.queries import QUERIES
from regente.queries import Row


async def store_match(
    connection: AsyncConnection[object], task_id: int, args: MatchArgs, sheet: MatchSheet
) -> Row:
    # A frozen runner must not keep its locks on teams.
    await QUERIES.execute(connection, "be_brief")
    # Teams are locked in the order of their names, so that matches do not deadlock.
    teams = sorted(sheet.teams, key=lambda team: team.slug)
    await QUERIES.execute(
        connection,
        "put_teams",
        league=args.league,
        slugs=[team.slug for team in teams],
        names=[team.name for team in teams],
    )
    match = await QUERIES.fetch_one(
        connection,
        "put_match",
        round_id=args.round_id,
        match_id=args.match_id,
        league=args.league,
        task_id=task_id,
        url=args.url,
        kickoff_at=sheet.kickoff_at,
        venue=sheet.venue,
        attendance=sheet.attendance,
        events_said=sheet.events_said,
        stats_said=sheet.stats_said,
    )
    assert match is not None
    await QUERIES.execute(
        connection,
        "put_match_rows",
        match=match["id"],
        league=args.league,
        teams=Jsonb([team.model_dump(mode="json") for team in sheet.teams]),
    )
    await QUERIES.execute(
        connection,
        "put_events",
        match=match["id"],
        events=Jsonb([one.model_dump(mode="json") for one in sheet.events]),
    )
    await QUERIES.execute(
        connection,
        "put_stats",
        match=match["id"],
        stats=Jsonb([one.model_dump(mode="json") for one in sheet.stats]),
    )
    # Constraints are checked here, so that the step fails and not the commit.
    await QUERIES.execute(connection, "check_now")
    return match
