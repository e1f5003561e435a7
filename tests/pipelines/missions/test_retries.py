"""The error codes: which are retried, how often, and the code of an exhausted retry (7.1, 7.2)."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import Response

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
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter

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


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"error": "GET of the source: 403 <Code>AccessDenied</Code>"}, "ERROR401"),
        ({"error": "NoSuchKey: The specified key does not exist."}, "ERROR400"),
        (
            {"failed_items": [{"index": 0, "data": None, "error": "S3 said InvalidAccessKeyId"}]},
            "ERROR401",
        ),
    ],
)
async def test_an_error_of_the_storage_in_a_writers_words_has_its_code(
    app: Regente, job: dict[str, Any], code: str
) -> None:
    """O15: ERROR400, ERROR401 by what 9.2 can say: the texts of a failed job, with S3's codes."""
    writer = ScriptedWriter()
    writer.job_script = [[{"status": "failed"} | job]]
    mission = await run_one(app, ScriptedWorker(), writer)
    assert (mission.status, mission.error_code, mission.retry_count) == ("failed", code, 0)


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "ERROR400"), (500, "ERROR400"), (403, "ERROR401"), (401, "ERROR401"), (200, None)],
)
async def test_when_a_writer_only_says_failed_the_storage_is_asked(
    app: Regente, status: int, code: str | None
) -> None:
    """O15: ERROR400, ERROR401 by the answer to the results' address (2.5.1)."""
    worker, writer, storage = ScriptedWorker(), ScriptedWriter(), ScriptedWriter()
    writer.job_script = [[{"status": "failed"}]]
    path = "/files/.*_results.json"
    storage.open_paths = path
    storage.fault_with("GET", path, lambda: Response("{}", status), times=10)
    async with worker.served() as url, storage.served() as base, conducting(app, writer):
        await app.fleet.add_worker("w", url, API_KEY, f"{base}/files")
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    assert storage.count("GET", path) == 1
    if code is None:
        assert (mission.status, mission.retry_count) == ("completed", 1)
    else:
        assert (mission.status, mission.error_code, mission.retry_count) == ("failed", code, 0)


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


BREAK_FUNCTION = """
CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'told to'; END $$
"""
BREAK_TRIGGER = """
CREATE TRIGGER break BEFORE UPDATE OF {column} ON mission_runs FOR EACH ROW
    WHEN (NEW.{column} IS NOT NULL) EXECUTE FUNCTION break()
"""


@pytest.mark.parametrize("column", ["scrape_started_at", "writer_started_at"])
@pytest.mark.parametrize("max_retries", [0, 1])
async def test_an_error_of_our_own_is_error500_within_the_retry_limit(
    app: Regente, column: str, max_retries: int
) -> None:
    """O15: 7.1: ERROR500; its worker is free again, and the next mission runs."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    await app.missions.set("max_retries", max_retries)
    async with conducting(app, worker, writer):
        await rows(app, BREAK_FUNCTION)
        await rows(app, BREAK_TRIGGER.format(column=column))
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id, within_seconds=60.0)
        assert (mission.status, mission.error_code, mission.retry_count) == (
            "failed",
            "ERROR500",
            max_retries,
        )
        assert "told to" in (mission.error_message or "")
        await rows(app, "DROP TRIGGER break ON mission_runs")
        (other,) = await app.missions.create([MISSION], queue=True)
        assert (await finished(app, other)).status == "completed"
    codes = [
        details["error_code"]
        for name, details in await events_of(app, mission_id)
        if name == "retry_triggered"
    ]
    assert codes == ["ERROR500"] * max_retries


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
