"""What people do with rounds: start them, look at them and their matches, run again what is
missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regente.engine.client import Client
from regente.engine.errors import InvalidInput, NotFound
from regente.pipelines.rounds.args import MatchArgs, RoundArgs, checked_round
from regente.pipelines.rounds.pipeline import match_key
from regente.pipelines.rounds.queries import QUERIES
from regente.pipelines.rounds.read_models import Round, RoundMatch, StoredMatch
from regente.pipelines.rounds.states import MatchState
from regente.queries import Row

MAX_PAGE = 1000
ROUNDS_AT_ONCE = 100
MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RetriedMatches:
    """What a `retry_failed` found missing, and which tasks it put back into the queue."""

    selected: int
    task_ids: list[int]


class RoundOperations:
    def __init__(self, client: Client) -> None:
        client.registry.declare("rounds", "matches")
        self._client = client
        self._database = client.database

    async def start(self, league: str, number: int, *, refresh: bool = False) -> Round:
        """Durable when this returns. A round that was started before is the same job, and is not
        started twice.

        With `refresh` the page of a round that was discovered already is read again, for matches
        that were moved into it.
        """
        league, number = checked_round(league, number)
        async with self._database.transaction() as connection:
            known = await QUERIES.fetch_one(connection, "open_round", league=league, number=number)
            assert known is not None
            discoveries = known["discoveries"] + int(
                refresh and known["task_status"] == "completed"
            )
            name = f"{league}/{number}"
            task_id = await self._client.enqueue(
                "rounds",
                RoundArgs(round_id=known["id"], league=league, number=number),
                key=name if discoveries == 1 else f"{name}#{discoveries}",
                batch=f"round {name}",
                connection=connection,
            )
            await QUERIES.execute(
                connection,
                "begin_round",
                round_id=known["id"],
                task_id=task_id,
                discoveries=discoveries,
            )
        return await self.get(known["id"])

    async def retry_failed(
        self,
        round_id: int | None = None,
        *,
        codes: Sequence[str] | None = None,
        by: str | None = None,
    ) -> RetriedMatches:
        """Run again what failed, was canceled, skipped or is missing, of one round or of all. What
        is stored stays as it is."""
        if round_id is not None:
            await self.get(round_id)
        selected, mended, after_id = 0, list[int](), 0
        while True:
            rounds = await QUERIES.fetch_all(
                self._database,
                "rounds_to_mend",
                round_id=round_id,
                after_id=after_id,
                limit=ROUNDS_AT_ONCE,
            )
            for one in rounds:
                after_id = one["id"]
                found, done = await self._mend(one, codes, by)
                selected, mended = selected + found, mended + done
            if len(rounds) < ROUNDS_AT_ONCE:
                return RetriedMatches(selected, mended)

    # Questions.

    async def get(self, round_id: int) -> Round:
        found = await self.find(round_id=round_id, limit=1)
        if not found:
            raise NotFound(f"there is no round {round_id}")
        return found[0]

    async def find(
        self,
        *,
        round_id: int | None = None,
        league: str | None = None,
        number: int | None = None,
        batch_id: int | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[Round]:
        """Newest first; the next page begins with `before_id` of the last one seen."""
        if round_id is not None and not 0 < round_id <= MAX_ID:
            raise InvalidInput(f"{round_id!r} is not an id")
        rows = await QUERIES.fetch_all(
            self._database,
            "list_rounds",
            round_id=round_id,
            league=league,
            number=number,
            batch_id=batch_id,
            before_id=before_id,
            limit=max(1, min(limit, MAX_PAGE)),
        )
        return [Round(**row) for row in rows]

    async def named(self, league: str, number: int) -> Round:
        league, number = checked_round(league, number)
        found = await self.find(league=league, number=number, limit=1)
        if not found:
            raise NotFound(f"round {number} of {league} was never started")
        return found[0]

    async def matches(self, round_id: int) -> list[RoundMatch]:
        """In the order of the round's page."""
        return [
            RoundMatch(**row)
            for row in await QUERIES.fetch_all(
                self._database, "matches_of_round", round_id=round_id, match_id=None
            )
        ]

    async def match(self, round_id: int, match_id: str) -> StoredMatch:
        await self.get(round_id)
        row = await QUERIES.fetch_one(
            self._database, "matches_of_round", round_id=round_id, match_id=match_id
        )
        if row is None:
            raise NotFound(f"round {round_id} has no match {match_id:.100}")
        stored = row["stored_id"]
        return StoredMatch(
            **row,
            event_list=await self._rows_of("events_of_match", stored),
            stat_list=await self._rows_of("stats_of_match", stored),
        )

    # Private.

    async def _rows_of(self, query: str, stored: int | None) -> list[Any]:
        return await QUERIES.fetch_all(self._database, query, match=stored) if stored else []

    async def _mend(
        self, one: Row, codes: Sequence[str] | None, by: str | None
    ) -> tuple[int, list[int]]:
        """How many were found, and the tasks that are in the queue again for them."""
        wanted = None if codes is None else list(codes)
        missing = await QUERIES.fetch_all(
            self._database, "matches_to_mend", round_id=one["id"], codes=wanted
        )
        lost = [row for row in missing if row["status"] == MatchState.MISSING]
        again = [row["task_id"] for row in missing if row["status"] != MatchState.MISSING]
        page = one["task_status"] in ("failed", "canceled") and (
            wanted is None or one["error_code"] in wanted
        )
        if page:
            again.append(one["task_id"])
        done = await self._client.retry_many(again, by=by) if again else []
        if lost:
            done += await self._enqueue_lost(one, lost)
        if one["task_status"] is None and one["discovered_at"] is None and wanted is None:
            started = await self.start(one["league"], one["number"])
            return len(missing) + 1, [*done, *([started.task_id] if started.task_id else [])]
        return len(missing) + int(page), done

    async def _enqueue_lost(self, one: Row, lost: Sequence[Row]) -> list[int]:
        """Their tasks were forgotten, or completed and their rows deleted: new ones take their
        place."""
        async with self._database.transaction() as connection:
            batch = f"round {one['league']}/{one['number']}"
            args = [
                MatchArgs(
                    round_id=one["id"],
                    league=one["league"],
                    match_id=row["match_id"],
                    url=row["url"],
                )
                for row in lost
            ]
            # A key that is taken belongs to a task that is through and cannot run again: the old id
            # makes another.
            keys = [f"{match_key(one['league'], row['match_id'])}#{row['task_id']}" for row in lost]
            ids = await self._client.enqueue_many(
                "matches", args, keys=keys, batch=batch, connection=connection
            )
            names = [row["match_id"] for row in lost]
            await QUERIES.execute(
                connection, "replace_tasks", round_id=one["id"], match_ids=names, task_ids=ids
            )
        return ids
