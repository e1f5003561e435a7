"""The pipelines: `rounds` lists a round's matches as tasks, `matches` stores a match's page."""

from __future__ import annotations

import logging
from typing import Any, assert_never

from regente.engine.client import Client
from regente.engine.database import TaskConnection
from regente.engine.errors import Fatal, Skip, Throttled
from regente.engine.task import Task
from regente.http_client.parsing import parse_page
from regente.pipelines.rounds.adapters import InvalidData
from regente.pipelines.rounds.args import MatchArgs, RoundArgs
from regente.pipelines.rounds.models import Fixture, MatchSheet, PlayState, RoundSheet
from regente.pipelines.rounds.parsing import parse_match, parse_round
from regente.pipelines.rounds.queries import QUERIES
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.site import Sites
from regente.pipelines.rounds.store import store_match

logger = logging.getLogger("regente.rounds")

DISCOVERED, SCRAPED, STORED = "DISCOVERED", "SCRAPED", "STORED"


def match_key(league: str, match_id: str) -> str:
    """The unique key of a match's task."""
    return f"{league}/{match_id}"


class RoundPipeline:
    def __init__(self, client: Client, sites: Sites) -> None:
        self._client = client
        self._sites = sites

    async def discover(self, task: Task[RoundArgs]) -> dict[str, Any]:
        """Enqueue a task for each match of the round, in one transaction."""
        args = task.args
        _name_in_log(task, job_id=args.round_id)
        if not await task.done(DISCOVERED):
            sheet = await self._sheet(task, args)
            await task.transact(DISCOVERED, self._write, task, args, sheet)
            logger.info("round discovered: %s matches", len(sheet.matches))
        row = (
            await QUERIES.fetch_all(self._client.database, "round_counts", round_id=args.round_id)
        )[0]
        return {"round_id": args.round_id, "matches": row["listed"]}

    async def _sheet(self, task: Task[RoundArgs], args: RoundArgs) -> RoundSheet:
        site = self._sites.of(args.league)
        page = await site.round_page(task, args.league, args.number)
        sheet = await parse_page(
            parse_round, site.adapter, page.text, page.url, args.league, str(args.number)
        )
        if (sheet.league, sheet.number) != (args.league, args.number):
            raise InvalidData(
                f"the page is round {sheet.number} of {sheet.league}, "
                f"not {args.number} of {args.league}"
            )
        foreign = [match.url for match in sheet.matches if not site.has(match.url)]
        if foreign:
            raise InvalidData(
                f"{foreign[0]:.200} is not on the league's site", details={"foreign": foreign[:20]}
            )
        return sheet

    async def _write(
        self,
        connection: TaskConnection,
        task: Task[RoundArgs],
        args: RoundArgs,
        sheet: RoundSheet,
    ) -> None:
        ids = await self._client.enqueue_many(
            "matches",
            [
                MatchArgs(
                    round_id=args.round_id, league=args.league, match_id=m.match_id, url=m.url
                )
                for m in sheet.matches
            ],
            keys=[match_key(args.league, match.match_id) for match in sheet.matches],
            batch=task.batch_id,
            connection=connection,
        )
        await QUERIES.execute(
            connection,
            "list_matches_of_round",
            round_id=args.round_id,
            task_ids=ids,
            match_ids=[match.match_id for match in sheet.matches],
            urls=[match.url for match in sheet.matches],
        )
        await QUERIES.execute(
            connection, "round_discovered", round_id=args.round_id, matches=sheet.matches_said
        )


class MatchPipeline:
    def __init__(self, client: Client, sites: Sites, settings: RoundSettings) -> None:
        self._database = client.database
        self._sites = sites
        self._settings = settings

    async def match(self, task: Task[MatchArgs]) -> dict[str, Any]:
        """Scrape, check and store the match in one transaction, unless it is stored already."""
        _name_in_log(task)
        args = task.args
        _name_in_log(task, job_id=args.round_id, match_id=args.match_id)
        known = await QUERIES.fetch_all(
            self._database, "stored_match", league=args.league, match_id=args.match_id
        )
        if known and known[0]["task_id"] != task.id:
            logger.info("match skipped: it is stored already")
            raise Skip(f"already finished: stored as {known[0]['id']}")
        if not known:
            sheet = await self._finished(task, args)
            await task.progress(0.5, SCRAPED)
            known = [await task.transact(STORED, store_match, task.id, args, sheet)]
            logger.info("match stored: %s events, %s stats", len(sheet.events), len(sheet.stats))
        return {
            "match": known[0]["id"],
            "events": known[0]["events_said"],
            "stats": known[0]["stats_said"],
        }

    async def _finished(self, task: Task[MatchArgs], args: MatchArgs) -> MatchSheet:
        site = self._sites.of(args.league)
        page = await site.match_page(task, args.url)
        sheet = await parse_page(parse_match, site.adapter, page.text, page.url, args.league)
        if sheet.match_id != args.match_id:
            raise InvalidData(f"the page is match {sheet.match_id}, not {args.match_id}")
        if isinstance(sheet, MatchSheet):
            return sheet
        raise await self._not_finished(sheet)

    async def _not_finished(self, fixture: Fixture) -> Skip | Throttled | Fatal:
        """The error that postpones or ends the task: a match is stored once, when it is
        finished."""
        match fixture.status:
            case PlayState.POSTPONED:
                logger.info("match skipped: it is postponed")
                return Skip(
                    "postponed: the league has no new date yet; retry-failed looks at it again"
                )
            case PlayState.SCHEDULED | PlayState.LIVE:
                row = (
                    await QUERIES.fetch_all(
                        self._database, "since_kickoff", kickoff_at=fixture.kickoff_at
                    )
                )[0]
                return self._not_yet(fixture, float(row["seconds"]))
            case PlayState.FINISHED:
                return InvalidData("a finished match without its sheet")
            case _:
                assert_never(fixture.status)

    def _not_yet(self, fixture: Fixture, since_kickoff_seconds: float) -> Throttled | Fatal:
        about = f"the match is {fixture.status}, kick-off {fixture.kickoff_at.isoformat()}"
        if since_kickoff_seconds > self._settings.patience_seconds:
            return Fatal(f"{about}: too long ago to wait for its end", code="MATCH_NEVER_FINISHED")
        wait_seconds = max(
            self._settings.recheck_seconds, self._settings.match_seconds - since_kickoff_seconds
        )
        return Throttled(
            f"{about}: checked again later", retry_after=wait_seconds, code="MATCH_NOT_FINISHED"
        )


def _name_in_log(task: Task[Any], job_id: int | None = None, match_id: str | None = None) -> None:
    """Add the round, the match and the attempt to the log lines of this attempt."""
    task.context.update(job_id=job_id, match_id=match_id, attempt_count=task.attempt)


__all__ = ["MatchPipeline", "RoundPipeline", "match_key"]
