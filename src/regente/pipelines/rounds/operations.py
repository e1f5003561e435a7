"""The operations of rounds, for CLI and API: start, list, show, retry what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import AsyncConnection

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
    """The result of `retry_failed`: how many it selected, and the tasks that it queued."""

    selected: int
    task_ids: list[int]


class RoundOperations:
    def __init__(self, client: Client) -> None:
        client.registry.declare("rounds", "matches")
        self._client = client
        self._database = client.database

    async def start(self, league: str, number: int, *, refresh: bool = False) -> Round:
        """Start a round, durably, unless it was started before.

        With `refresh` the page of a discovered round is read again, for matches moved into it.
        """
        league, number = checked_round(league, number)
        opened = partial(self._open, league=league, number=number, refresh=refresh)
        return await self.get(await self._database.in_transaction(opened))

    async def _open(
        self, connection: AsyncConnection[Any], *, league: str, number: int, refresh: bool
    ) -> int:
        known = await QUERIES.fetch_one(connection, "open_round", league=league, number=number)
        assert known is not None
        discoveries = known["discoveries"] + int(refresh and known["task_status"] == "completed")
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
        return int(known["id"])

    async def retry_failed(
        self,
        round_id: int | None = None,
        *,
        codes: Sequence[str] | None = None,
        by: str | None = None,
    ) -> RetriedMatches:
        """Retry failed, canceled, skipped and missing matches of one round or of all."""
        if round_id is not None:
            await self.get(round_id)
        selected, queued, after_id = 0, list[int](), 0
        while True:
            rounds = await QUERIES.fetch_all(
                self._database,
                "rounds_to_retry",
                round_id=round_id,
                after_id=after_id,
                limit=ROUNDS_AT_ONCE,
            )
            for one in rounds:
                after_id = one["id"]
                found, done = await self._retry_round(one, codes, by)
                selected, queued = selected + found, queued + done
            if len(rounds) < ROUNDS_AT_ONCE:
                return RetriedMatches(selected, queued)

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
        """A page of rounds, newest first; `before_id` is the last id of the previous page."""
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
            raise NotFound(f"round {number} of {league} has not been started")
        return found[0]

    async def matches(self, round_id: int) -> list[RoundMatch]:
        """The matches of a round, in the order of its page."""
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

    async def _retry_round(
        self, one: Row, codes: Sequence[str] | None, by: str | None
    ) -> tuple[int, list[int]]:
        """The number of missing matches and pages of a round, and the tasks queued for them."""
        matches = await QUERIES.fetch_all(
            self._database,
            "matches_to_retry",
            round_id=one["id"],
            codes=None if codes is None else list(codes),
        )
        missing = [row for row in matches if row["status"] == MatchState.MISSING]
        failed = [row["task_id"] for row in matches if row["status"] != MatchState.MISSING]
        pages = [one["task_id"]] if _page_failed(one, codes) else []
        ids = [*failed, *pages]
        done = await self._client.retry_many(ids, by=by) if ids else []
        if missing:
            done += await self._enqueue_missing(one, missing)
        if codes is None and _has_no_task(one):
            pages = await self._restart(one)
            done += pages
        return len(matches) + len(pages), done

    async def _restart(self, one: Row) -> list[int]:
        started = await self.start(one["league"], one["number"])
        assert started.task_id is not None
        return [started.task_id]

    async def _enqueue_missing(self, one: Row, missing: Sequence[Row]) -> list[int]:
        """Enqueue new tasks for matches whose tasks or stored rows were deleted."""
        async with self._database.transaction() as connection:
            batch = f"round {one['league']}/{one['number']}"
            args = [
                MatchArgs(
                    round_id=one["id"],
                    league=one["league"],
                    match_id=row["match_id"],
                    url=row["url"],
                )
                for row in missing
            ]
            # The match's key may belong to a completed task: the old task's id makes another key.
            keys = [
                f"{match_key(one['league'], row['match_id'])}#{row['task_id']}" for row in missing
            ]
            ids = await self._client.enqueue_many(
                "matches", args, keys=keys, batch=batch, connection=connection
            )
            names = [row["match_id"] for row in missing]
            await QUERIES.execute(
                connection, "replace_tasks", round_id=one["id"], match_ids=names, task_ids=ids
            )
        return ids


def _page_failed(one: Row, codes: Sequence[str] | None) -> bool:
    """Whether the task of the round's page failed, with one of these codes if given."""
    failed = one["task_status"] in ("failed", "canceled")
    return failed and (codes is None or one["error_code"] in codes)


def _has_no_task(one: Row) -> bool:
    """Whether the round's task was deleted before it discovered the matches."""
    return one["task_status"] is None and one["discovered_at"] is None
