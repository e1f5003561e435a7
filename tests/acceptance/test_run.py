"""`regente run` as a process: `--until-idle`, and its end by signals."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from regente import Regente
from regente.cli.run import SignalHandler
from regente.engine.pipeline import Registry
from tests.acceptance.conftest import PIPELINES, CliProcess
from tests.support.eventually import eventually, eventually_async

Start = Callable[..., CliProcess]
RUN = ("run", "--import", str(PIPELINES), "--log-format", "json")


@pytest.fixture(autouse=True)
async def known(app: Regente, registry: Registry) -> None:
    """Registers the runner's pipelines by name: this process only enqueues."""
    for name in ("quick", "slow", "stubborn"):

        @registry.pipeline(name)
        async def elsewhere(task: object) -> None:
            raise NotImplementedError


async def running(app: Regente, count: int) -> None:
    async def enough() -> bool:
        return (await app.counts())["running"] == count

    await eventually_async(enough)


async def test_until_idle_ends_when_nothing_is_left(app: Regente, start: Start) -> None:
    """Z9: the queue is served by another process, also tasks queued before it started."""
    await app.enqueue_many("quick", [{}] * 50)
    answer = start(*RUN, "--until-idle", "--concurrency", "10").wait()
    assert (answer.code, answer.last_line) == (0, "0 finished, 0 handed back, 0 lost")
    assert (await app.counts())["completed"] == 50


async def test_only_the_named_pipelines_are_served(app: Regente, start: Start) -> None:
    other = await app.enqueue("slow", {"seconds": 0})
    await app.enqueue("quick")
    answer = start(*RUN, "--pipelines", "quick", "--until-idle", "--name", "picky", "--json").wait()
    assert answer.data == {"finished": 0, "handed_back": 0, "lost": 0, "left": 0}
    assert (await app.get(other)).status == "queued"
    assert [runner.name for runner in await app.runners(everyone=True)] == ["picky"]


async def test_sigterm_lets_running_tasks_finish(app: Regente, start: Start) -> None:
    """Q12: a deploy. Nothing is claimed, running tasks end, and the last line reports it."""
    await app.enqueue_many("slow", [{"seconds": 1.0}] * 3)
    process = start(*RUN, "--concurrency", "3")
    await running(app, 3)
    later = await app.enqueue("quick")
    process.send(signal.SIGTERM)
    answer = process.wait()
    assert (answer.code, answer.last_line) == (0, "3 finished, 0 handed back, 0 lost")
    assert (await app.counts())["completed"] == 3
    assert (await app.get(later)).status == "queued"


async def test_tasks_that_do_not_finish_in_time_are_handed_back_uncharged(
    app: Regente, start: Start
) -> None:
    """Q12: a deploy while tasks run long."""
    ids = await app.enqueue_many("slow", [{"seconds": 600}] * 3)
    process = start(*RUN, REGENTE_DRAIN_SECONDS="0.1")
    await running(app, 3)
    process.send(signal.SIGTERM)
    answer = process.wait()
    assert (answer.code, answer.last_line) == (0, "0 finished, 3 handed back, 0 lost")
    for task_id in ids:
        task = await app.get(task_id)
        assert (task.status, task.tries, task.crashes) == ("queued", 0, 0)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_hands_back_at_once(
    app: Regente, start: Start, sign: signal.Signals
) -> None:
    """Q12: a manual stop without waiting."""
    ids = await app.enqueue_many("slow", [{"seconds": 600}] * 2)
    process = start(*RUN, REGENTE_DRAIN_SECONDS="600")
    await running(app, 2)
    process.send(sign)
    eventually(process.said("draining, running tasks may finish"))
    process.send(sign)
    answer = process.wait()
    assert (answer.code, answer.last_line) == (0, "0 finished, 2 handed back, 0 lost")
    assert [(await app.get(task_id)).tries for task_id in ids] == [0, 0]


async def test_a_third_signal_leaves_the_tasks_to_the_lease(app: Regente, start: Start) -> None:
    task_id = await app.enqueue("stubborn")
    process = start(*RUN, REGENTE_DRAIN_SECONDS="600")
    await running(app, 1)
    for told in ("draining, running", "returning running tasks", "exiting"):
        process.send(signal.SIGTERM)
        eventually(process.said(told))
    assert process.wait().code == 1
    assert (await app.get(task_id)).status == "running"


async def test_a_signal_right_after_the_start_ends_it_too(app: Regente, start: Start) -> None:
    await app.enqueue("slow", {"seconds": 600})
    process = start(*RUN, REGENTE_DRAIN_SECONDS="0.1")
    eventually(process.said("runner started"))
    process.send(signal.SIGTERM)
    assert process.wait().last_line.endswith("0 lost")


async def test_a_signal_before_there_is_a_runner_keeps_it_from_starting(app: Regente) -> None:
    task_id = await app.enqueue("quick")
    signals = SignalHandler(app)
    signals.stop("SIGTERM")
    assert (
        str(await signals.run_unless_stopped(app.run(until_idle=True)))
        == "0 finished, 0 handed back, 0 lost"
    )
    assert (await app.get(task_id)).status == "queued"


async def test_every_log_line_names_its_runner_and_task(app: Regente, start: Start) -> None:
    """Z7, S7: runner, task, match, attempt; type, status and duration at the end of an attempt."""
    enqueued = start(
        "enqueue", "matches", '{"match_id": 77}', "--import", str(PIPELINES), "--json"
    ).wait()
    answer = start(*RUN, "--until-idle", "--name", "logger").wait()
    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert {line["runner"] for line in lines} == {"logger"}
    whose = {"task": enqueued.data["id"], "pipeline": "matches", "match_id": 77}
    of_task = [line for line in lines if "task" in line]
    assert [line for line in of_task if not whose.items() <= line.items()] == []
    assert {(line.get("source"), line["attempt"]) for line in of_task} >= {
        ("stdlib", 1),
        ("structlog", 1),
        ("thread", 1),
        ("stdlib", 2),
        ("structlog", 2),
    }
    ends = [line for line in of_task if "duration_ms" in line]
    assert [(line["status"], line["attempt"], line["level"]) for line in ends] == [
        ("retried", 1, "warning"),
        ("completed", 2, "info"),
    ]
    assert all(line["duration_ms"] >= 0 for line in ends)
    assert ends[0]["code"] == "HTTP_503"


async def test_the_log_level_and_format_can_be_chosen(app: Regente, start: Start) -> None:
    await app.enqueue("quick")
    quiet = start(*RUN, "--until-idle", REGENTE_LOG_LEVEL="error").wait()
    assert (quiet.code, quiet.err) == (0, "")
    told = start("run", "--import", str(PIPELINES), "--until-idle", "--log-format", "text").wait()
    assert "runner started" in told.err
    assert "\x1b" not in told.err
