"""The error codes: which are retried, how often, and the code of an exhausted retry (7.1, 7.2)."""

from __future__ import annotations

import pytest

from regente import Regente
from regente.contracts.worker import Cause, Problem
from regente.pipelines.missions.failures import ErrorCode, Phase, blames_proxy
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    events_of,
    finished,
    names_of,
    rows,
    run_one,
    until,
)
from tests.pipelines.missions.test_sessions import session
from tests.support.peers import ScriptedWorker, ScriptedWriter

RETRIED = {
    "ERROR100",
    "ERROR101",
    "ERROR102",
    "ERROR103",
    "ERROR200",
    "ERROR201",
    "ERROR202",
    "ERROR300",
    "ERROR301",
    "ERROR302",
    "ERROR303",
}
FINAL = {
    "ERROR104",
    "ERROR203",
    "ERROR304",
    "ERROR400",
    "ERROR401",
    "ERROR500",
    "ERROR501",
    "ERROR502",
}


def test_the_codes_are_the_specifications_and_each_is_retried_or_not_as_it_says() -> None:
    """O15."""
    assert {code.value for code in ErrorCode if code.may_retry} == RETRIED
    assert {code.value for code in ErrorCode if not code.may_retry} == FINAL
    assert {code: code.phase for code in ErrorCode if code.phase is not None} == {
        code: {"1": Phase.SESSION, "2": Phase.SCRAPE, "3": Phase.WRITER}[code.value[5]]
        for code in ErrorCode
        if code.value[5] in "123"
    }


def test_only_a_proxys_own_fault_counts_against_it() -> None:
    """O4: evidence first; without it, a start that timed out, got stuck or broke is the proxy's."""
    for cause in Cause:
        problem = Problem(cause=cause, message="so it was")
        for code in ErrorCode:
            assert blames_proxy(code, problem, starting=True) is (cause is Cause.PROXY)
    at_start = {code for code in ErrorCode if blames_proxy(code, None, starting=True)}
    assert at_start == {
        ErrorCode.SESSION_TIMEOUT,
        ErrorCode.SESSION_STUCK,
        ErrorCode.SESSION_DISCONNECTED,
    }
    assert {code for code in ErrorCode if blames_proxy(code, None, starting=False)} == {
        ErrorCode.SESSION_TIMEOUT
    }


@pytest.mark.parametrize(
    ("phase", "cause", "final", "says"),
    [
        ("session", "ERROR103", "ERROR104", "ERROR103: the session is disconnected"),
        ("scrape", "ERROR200", "ERROR203", "ERROR200: the job scrape_"),
        ("writer", "ERROR300", "ERROR304", "ERROR300: no space left"),
    ],
)
async def test_when_the_retries_are_used_up_the_mission_fails_with_the_last_cause_on_record(
    app: Regente, phase: str, cause: str, final: str, says: str
) -> None:
    """O2, O15, O17: retry_count, retry_triggered events, the phase's final code, the last cause."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    if phase == "session":
        worker.session_script = [session("ready", "disconnected") for _ in range(3)]
        worker.job_script = [[{"status": "running"}] for _ in range(3)]
    elif phase == "scrape":
        worker.job_script = [[{"status": "failed"}] for _ in range(3)]
    writer.job_script = (
        [[{"status": "failed", "error": "no space left"}] for _ in range(2)]
        if phase == "writer"
        else []
    )
    mission = await run_one(app, worker, writer)
    retries = 1 if phase == "writer" else 2
    assert (mission.status, mission.error_code, mission.retry_count) == ("failed", final, retries)
    assert mission.error_message is not None
    assert mission.error_message.startswith(says)
    events = await events_of(app, mission.id)
    triggered = [details for name, details in events if name == "retry_triggered"]
    assert triggered == [
        {"attempt": n + 1, "error_code": cause, "phase": phase} for n in range(retries)
    ]
    name, failed = events[-1]
    assert name == "mission_failed"
    assert failed == {
        "error_code": final,
        "error_message": mission.error_message,
        "retry_count": retries,
    }
    last, *before = await app.failures(mission.id)
    assert (last["code"], last["details"]) == (final, {"last_code": cause, "phase": phase})
    assert {failure["code"] for failure in before} == {cause}


async def test_retries_are_shared_by_the_phases(app: Regente) -> None:
    """O15: after two failed scrapes the writer has no retry left."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.job_script = [[{"status": "failed"}] for _ in range(2)]
    writer.job_script = [[{"status": "failed", "error": "full"}]]
    mission = await run_one(app, worker, writer)
    assert (mission.status, mission.error_code, mission.retry_count) == ("failed", "ERROR304", 2)


@pytest.mark.parametrize(
    ("where", "code"), [("scrape", "ERROR400"), ("writer", "ERROR400"), ("writer", "ERROR401")]
)
async def test_a_permanent_error_fails_at_once_with_its_own_code(
    app: Regente, where: str, code: str
) -> None:
    """O15: ERROR400 and ERROR401."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    if where == "scrape":
        worker.job_script = [
            [{"status": "failed", "problem": {"cause": "storage", "message": "the bucket is gone"}}]
        ]
    writer.job_script = [[{"status": "failed", "error": "the bucket is gone", "error_code": code}]]
    mission = await run_one(app, worker, writer)
    assert (mission.status, mission.error_code, mission.error_message) == (
        "failed",
        code,
        "the bucket is gone",
    )
    assert mission.retry_count == 0
    assert "retry_triggered" not in await names_of(app, mission.id)


async def test_max_retries_can_be_changed_while_a_mission_runs(app: Regente) -> None:
    """O16: the value at the time of the failure counts; 0 means none."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.job_script = [[{"status": "running"}], [{"status": "failed"}]]
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        assert (await app.missions.set("max_retries", 0)).max_retries == 0
        next(iter(worker.jobs.values())).statuses = [{"status": "failed"}]
        mission = await finished(app, mission_id)
        assert (mission.status, mission.error_code, mission.retry_count) == (
            "failed",
            "ERROR203",
            0,
        )
        await app.missions.set("max_retries", 1)
        await app.missions.retry(mission_id)
        again = await finished(app, mission_id)
    assert (again.status, again.retry_count) == ("completed", 1)


async def test_an_unexpected_exception_is_error500_in_the_specifications_view(app: Regente) -> None:
    """O15: the view has the specification's codes only."""
    (mission_id,) = await app.missions.create([MISSION])
    await app.missions.queue([mission_id])
    await rows(app, "ALTER TABLE tasks DISABLE TRIGGER tasks_obey_the_state_machine")
    await rows(
        app, "UPDATE tasks SET status = 'failed', finished_at = now(), error_code = 'KeyError'"
    )
    found = await app.missions.get(mission_id)
    assert (found.status, found.error_code) == ("failed", "ERROR500")
