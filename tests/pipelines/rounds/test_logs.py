"""The log of a real run: every line of a match names its round, match and attempt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox import Sandbox
from tests.pipelines.rounds.conftest import LEAGUE, until_state
from tests.pipelines.rounds.forked_runner import forked_runner
from tests.support.eventually import eventually

OF_THE_RUNNER = ("runner started", "runner stopped", "watchdog: ", "SIGTERM")
FIELDS = ("job_id", "match_id", "attempt_count")


async def test_every_line_names_its_round_its_match_and_its_attempt(
    operations: RoundOperations, sandbox: Sandbox, league: League, database_url: str, tmp_path: Path
) -> None:
    """Z7: fetches, retries, throttling, dead letters, skips and ends, of pipeline and engine."""
    played = [match.id for match in league.calendar.round(LEAGUE, 12)]
    for match_id, kind in zip(
        played, ("unavailable", "throttled", "layout", "postponed", "live"), strict=False
    ):
        league.break_with(kind, match_id=match_id, count=1, retry_after=0.05)
    started = await operations.start(LEAGUE, 12)
    log = tmp_path / "log"
    with forked_runner(database_url, sandbox.url, log):
        await until_state(operations, started.id, "INCOMPLETE", within_seconds=60)
        await asyncio.to_thread(_ends, log, 10 + 1 + 3)
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    work = [line for line in lines if not line["event"].startswith(OF_THE_RUNNER)]
    for line in work:
        assert set(FIELDS) <= set(line), line
        assert (line["job_id"], line["attempt_count"]) == (started.id, line["attempt"])
        assert (
            line["match_id"] is None if line["pipeline"] == "rounds" else line["match_id"] in played
        ), line
    told = {
        match_id: [
            (one["event"].split(":")[0].split(" http")[0], one["attempt_count"])
            for one in work
            if one["match_id"] == match_id
        ]
        for match_id in played
    }
    stored = [("fetching", 1), ("match stored", 1), ("task completed", 1)]
    again = [("fetching", 2), ("match stored", 2), ("task completed", 2)]
    assert told[played[9]] == stored
    assert told[played[0]] == [("fetching", 1), ("task retried", 1), *again]
    assert told[played[1]] == [("fetching", 1), ("task throttled", 1), *again]
    assert told[played[2]] == [("fetching", 1), ("task failed", 1)]
    assert told[played[3]] == [("fetching", 1), ("match skipped", 1), ("task skipped", 1)]
    assert told[played[4]] == [("fetching", 1), ("task throttled", 1), *again]
    (failed,) = [line for line in work if line["event"] == "task failed"]
    assert (failed["level"], failed["code"]) == ("warning", "LAYOUT_CHANGED")


def _ends(log: Path, count: int) -> None:
    """The last line is written a moment after the last commit."""
    eventually(lambda: log.read_text().count('"event": "task ') >= count)
