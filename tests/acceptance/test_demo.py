"""`regente demo` and `regente up`: everything on one machine, and a final report that is true."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg

from regente import Regente
from regente.cli.demo import plan
from regente.cli.demo.report import make_report
from tests.acceptance.conftest import CliProcess
from tests.support.eventually import eventually, eventually_async

Start = Callable[..., CliProcess]


async def test_the_demo_loses_nothing_and_does_nothing_twice(
    app: Regente, start: Start, tmp_path: Path
) -> None:
    """O6, O10, O13, O14, O15, O21, O22: every kind of fault, one runner killed, every mission
    as it should be."""
    answer = start("demo", "--json", REGENTE_DATA_DIR=str(tmp_path / "data")).wait(150)
    assert answer.code == 0, answer
    verdict = answer.data
    assert (
        verdict["ok"],
        verdict["missions"],
        verdict["right"],
        verdict["duplicates"],
        verdict["lost"],
    ) == (
        True,
        24,
        24,
        0,
        0,
    )
    assert verdict["rows_failed"] >= 1
    assert verdict["takeovers"] >= 1
    assert "Killed runner" in answer.err
    await _the_report_shows_what_is_lost_or_repeated(app)


async def _the_report_shows_what_is_lost_or_repeated(app: Regente) -> None:
    ids = sorted(await app.missions.ids())
    expected = {
        number: plan.expectation_of(args)
        for number, args in zip(ids, plan.demo_missions(), strict=True)
    }
    completed = next(number for number in ids if expected[number].ads)
    with psycopg.connect(app.database_url, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM public.ads WHERE id = %s", [next(iter(expected[completed].ads))]
        )
        connection.execute(
            "INSERT INTO regente.events (task_id, event) SELECT task_id, event FROM regente.events "
            "WHERE task_id = %s AND event = 'writer_completed'",
            [completed],
        )
    missions = await app.missions.find(ids=ids, limit=100)
    verdict = await make_report(app, missions, expected, missions[0].created_at, 1.0)
    assert {line.key for line in verdict.wrong} == {"lost", "duplicates"}


async def test_an_interrupted_demo_leaves_no_process_and_no_mission_behind(
    app: Regente, start: Start, tmp_path: Path
) -> None:
    """O13: sessions are ended, proxies freed, remaining missions canceled."""
    process = start("demo", REGENTE_DATA_DIR=str(tmp_path / "data"))

    async def busy() -> list[int]:
        counts = await app.missions.counts()
        return [runner.pid for runner in await app.runners()] if counts["running"] else []

    pids = await eventually_async(busy, within_seconds=60)
    process.send(signal.SIGINT)
    answer = process.wait(60)
    assert (answer.code, "Interrupted" in answer.err) == (130, True), answer
    assert not any(is_alive(pid) for pid in pids)
    counts = await app.missions.counts()
    assert (counts["queued"], counts["running"]) == (0, 0)


async def test_up_runs_a_runner_and_a_writer_until_it_is_stopped(
    app: Regente, start: Start, tmp_path: Path
) -> None:
    process = start("up", REGENTE_DATA_DIR=str(tmp_path / "data"))
    eventually(process.said("Ctrl-C stops everything"), within_seconds=60)
    pids = [runner.pid for runner in await app.runners()]
    assert [member.kind for member in await app.fleet.members()] == ["writer"]
    os.kill(pids[0], signal.SIGKILL)
    eventually(process.said("was restarted"), within_seconds=60)
    process.send(signal.SIGTERM)
    assert process.wait(60).code == 0
    assert not any(is_alive(runner.pid) for runner in await app.runners(everyone=True))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
