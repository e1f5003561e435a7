"""`regente demo`: the account at the end holds, whatever was killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psycopg

from regente import Regente
from regente.cli.demo.verdict import judge
from regente.examples.prices import page_requests
from tests.acceptance.conftest import CliProcess
from tests.support.eventually import eventually_async

Start = Callable[..., CliProcess]


async def test_the_demo_loses_nothing_and_does_nothing_twice(app: Regente, start: Start) -> None:
    """Q12: a runner crash. One of three is killed; every task ends as it should, once."""
    answer = start("demo", "--tasks", "60", "--json").wait(90)
    assert answer.code == 0, answer
    verdict = answer.data
    assert (verdict["ok"], verdict["wrong"]) == (True, [])
    assert (verdict["counts"]["completed"], verdict["counts"]["failed"], verdict["counts"]["skipped"]) == (55, 3, 2)
    assert verdict["counts"]["recovered"] >= 1
    assert "Killed runner" in answer.err
    assert "60 done" in answer.err
    await _a_price_stored_twice_or_lost_is_seen(app, verdict["batch"])


async def _a_price_stored_twice_or_lost_is_seen(app: Regente, name: str) -> None:
    """The judge is not easily pleased: nor does it believe in a recovery when nobody was killed."""
    with psycopg.connect(app.database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO regente_demo.prices SELECT * FROM regente_demo.prices WHERE product = 1")
        connection.execute("DELETE FROM regente_demo.prices WHERE product = 2")
    verdict = await judge(app, await app.batch(name), page_requests(name, 60), [], 0, 1.0)
    assert {line.key for line in verdict.wrong} == {"duplicates", "lost", "recovered"}


async def test_an_interrupted_demo_leaves_no_process_and_no_work_behind(app: Regente, start: Start) -> None:
    process = start("demo", "--tasks", "500")

    async def busy() -> list[int]:
        runners = await app.runners()
        return [runner.pid for runner in runners] if len(runners) == 3 and (await app.counts())["completed"] > 5 else []

    pids = await eventually_async(busy, within_seconds=30)
    process.send(signal.SIGINT)
    answer = process.wait()
    assert (answer.code, "Interrupted" in answer.err) == (130, True)
    assert not any(is_alive(pid) for pid in pids)
    assert (await app.counts())["queued"] == 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
