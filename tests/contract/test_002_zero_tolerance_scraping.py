"""The document 002-zero-tolerance-scraping.md, section by section.

Its job is a round (`scrape_jobs`), its task a match (`scrape_tasks`). Where we do something else,
docs/deviations.md says why (Rounds).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from regente import Regente
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.logs import configure_logs
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.setup import register_rounds
from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.api.conftest import Served, body_of, served

LEAGUE = "brasileirao-2025"
QUICK = RoundSettings(pause_seconds=0, retry_first_seconds=0.02, retry_most_seconds=0.1)
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
ROUND = {"league": LEAGUE, "round": 12}

Db = psycopg.Connection[dict[str, Any]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, seed=7, standins=[League(7)]) as place:
        yield place


@pytest.fixture
def league(sandbox: Sandbox) -> League:
    (found,) = sandbox.standins
    assert isinstance(found, League)
    return found


@pytest.fixture
async def app(
    database_url: str, registry: Registry, settings: Settings, sandbox: Sandbox
) -> AsyncIterator[Regente]:
    http = HttpClient()
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        register_rounds(registry, opened, http, QUICK, sandbox.url)
        yield opened
    await http.close()


@pytest.fixture
async def api(app: Regente) -> AsyncIterator[Served]:
    async with served(app) as found:
        yield found


@pytest.fixture
def db(database_url: str) -> Iterator[Db]:
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


async def scraped(app: Regente, api: Served) -> int:
    """Starts a round over HTTP and runs it to its end."""
    job = body_of(await api.operator.post("/api/scrape", json=ROUND), 202)["job_id"]
    await app.run(until_idle=True)
    return int(job)


def tasks(db: Db, job: int) -> dict[str, dict[str, Any]]:
    rows = db.execute("SELECT * FROM regente.scrape_tasks WHERE job_id = %s", (job,)).fetchall()
    return {row["match_id"]: row for row in rows}


def ids(league: League) -> list[str]:
    return [match.id for match in league.calendar.round(LEAGUE, 12)]


# Level 1, 1. Intelligent retry


async def test_1_transient_errors_are_retried_and_fatal_ones_are_not(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """§1.1, Z2: timeout and 503 again, layout and 404 at once. Deviation: the engine waits, and
    not `tenacity`, so that the wait survives a crash and holds no slot."""
    flaky, gone, changed, *_ = ids(league)
    league.break_with("unavailable", match_id=flaky, count=2)
    league.break_with("not_found", match_id=gone)
    league.break_with("layout", match_id=changed)
    found = tasks(db, await scraped(app, api))
    assert (found[flaky]["status"], found[flaky]["attempt_count"]) == ("FINISHED", 3)
    assert (found[gone]["status"], found[gone]["attempt_count"]) == ("FAILED", 1)
    assert (found[changed]["status"], found[changed]["error_code"]) == ("FAILED", "LAYOUT_CHANGED")


def test_1_the_waits_grow_and_are_spread() -> None:
    """§1.1, Z2: exponential backoff with jitter, three retries."""
    retry = RoundSettings().retry
    assert (retry.max_attempts - 1, retry.factor, retry.jitter) == (3, 2.0, True)
    waits = [retry.delay_seconds(2) for _ in range(50)]
    assert 2.0 <= min(waits) < max(waits) <= 4.0


# Level 1, 2. State: the job journal


async def test_2_every_match_has_its_pending_task_before_anything_is_scraped(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """§1.2, Z1: 10 rows with the status PENDING; what is unfinished goes on in another process."""
    await app.pause("matches")
    job = await scraped(app, api)
    assert {row["status"] for row in tasks(db, job).values()} == {"PENDING"}
    assert len(tasks(db, job)) == 10
    assert [route for route in league.calls if route.startswith("match")] == []
    await app.resume("matches")
    await app.run(until_idle=True)
    assert {row["status"] for row in tasks(db, job).values()} == {"FINISHED"}


# Level 1, 3. Strict validation


async def test_3_a_missing_field_fails_the_task_stores_nothing_and_alerts(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """§1.3, Z3: "falha a task (não salva lixo) e alerta": an event in the feed, an item on the
    console's overview, and a rule for Prometheus."""
    broken = ids(league)[0]
    league.break_with("missing_field", match_id=broken)
    job = await scraped(app, api)
    assert tasks(db, job)[broken]["status"] == "FAILED"
    assert db.execute(
        "SELECT count(*) AS n FROM regente.matches WHERE match_id = %s", (broken,)
    ).fetchone() == {"n": 0}
    task_id = tasks(db, job)[broken]["task_id"]
    assert "task_failed" in [one.event for one in await app.task_events(task_id)]
    stats = body_of(await api.viewer.get("/api/stats"))
    assert {"code": "MATCHES_FAILED", "count": 1} in [
        {name: one[name] for name in ("code", "count")} for one in stats["attention"]
    ]
    metric = re.compile(
        r'^regente_tasks\{(?=.*pipeline="matches")(?=.*status="failed").*\} 1', re.M
    )
    assert metric.search((await api.viewer.get("/metrics")).text)
    rule = ALERTS.read_text().partition("alert: MatchFailed")[2].partition("- alert")[0]
    assert 'regente_tasks{pipeline=~"matches|rounds", status="failed"}) > 0' in rule


# Level 1, 4. Dead letters


async def test_4_a_failed_match_keeps_its_error_as_json_and_its_page(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """§1.4, Z4: in `scrape_tasks`; also a page that is no text."""
    broken, garbage, *others = ids(league)
    league.break_with("wrong_type", match_id=broken)
    league.break_with("garbage", match_id=garbage)
    found = tasks(db, await scraped(app, api))
    error = found[broken]["error"]
    assert (error["code"], error["class"], error["attempt"]) == ("INVALID_DATA", "fatal", 1)
    assert error["details"]["errors"][0]["field"] == "teams.0.goals"
    assert "<article" in found[broken]["html"]
    assert found[garbage]["error"]["code"] == "PAGE_INCOMPLETE"
    assert found[garbage]["html"]
    assert {(found[one]["error"], found[one]["html"]) for one in others} == {(None, None)}


async def test_4_retry_failed_runs_only_what_failed(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """§1.4 and plan 2.2, Z5: `POST /api/scrape/retry-failed`."""
    broken = ids(league)[0]
    league.break_with("layout", match_id=broken)
    job = await scraped(app, api)
    before = dict(league.calls)
    await api.operator.post("/api/scrape/retry-failed")
    await app.run(until_idle=True)
    league._faults.clear()
    answer = body_of(await api.operator.post("/api/scrape/retry-failed", json={"job_id": job}), 202)
    assert (answer["selected"], answer["retried"]) == (1, 1)
    await app.run(until_idle=True)
    assert tasks(db, job)[broken]["status"] == "FINISHED"
    again = {name for name, calls in league.calls.items() if calls > before[name]}
    assert again == {f"match {broken}"}


# Level 2. Persistent queue, atomic transactions


async def test_5_the_queue_outlives_the_api_and_workers_are_apart(app: Regente) -> None:
    """§2.1, Z9: the API stores the job and ends; the work is done later, elsewhere. Deviation:
    PostgreSQL instead of Redis or RabbitMQ."""
    async with served(app) as api:
        job = body_of(await api.operator.post("/api/scrape", json=ROUND), 202)["job_id"]
    await app.run(until_idle=True)
    assert (await RoundOperations(app).get(job)).status == "FINISHED"


async def test_5_match_events_and_stats_are_stored_together_or_not_at_all(
    app: Regente, api: Served, db: Db
) -> None:
    """§2.2 and plan 1.3, Z6: the constraints refuse half a match also in SQL by hand."""
    job = await scraped(app, api)
    stored = tasks(db, job)
    assert {row["status"] for row in stored.values()} == {"FINISHED"}
    with pytest.raises(psycopg.errors.CheckViolation, match="is not whole"):
        db.execute("DELETE FROM regente.match_stats")
    assert db.execute("SELECT count(*) AS n FROM regente.match_stats").fetchone() == {"n": 160}


# Plan of action


async def test_6_a_finished_match_is_not_scraped_again(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """Plan 1.2, Z8: `status='finished'` in the table of matches decides."""
    await scraped(app, api)
    db.execute("DELETE FROM regente.tasks")
    await scraped(app, api)
    assert {calls for name, calls in league.calls.items() if name.startswith("match")} == {1}
    rows = db.execute("SELECT DISTINCT status FROM regente.matches").fetchall()
    assert rows == [{"status": "finished"}]


async def test_6_every_log_line_names_job_match_and_attempt(
    app: Regente, api: Served, league: League, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plan 2.1, Z7."""
    configure_logs(log_format="json")
    job = await scraped(app, api)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line[:1] == "{"]
    of_matches = [line for line in lines if line.get("pipeline") == "matches"]
    assert {line["match_id"] for line in of_matches} == {*ids(league)}
    assert {(line["job_id"], line["attempt_count"]) for line in of_matches} == {(job, 1)}


async def test_7_one_bad_match_does_not_stop_the_round(
    app: Regente, api: Served, league: League, db: Db
) -> None:
    """The diagram, Z8: the error is logged in the table of tasks, for a person."""
    broken = ids(league)[4]
    league.break_with("layout", match_id=broken)
    job = await scraped(app, api)
    states = {match: row["status"] for match, row in tasks(db, job).items()}
    assert states == {**dict.fromkeys(states, "FINISHED"), broken: "FAILED"}
    row = db.execute("SELECT status, failed FROM regente.scrape_jobs").fetchone()
    assert row == {"status": "INCOMPLETE", "failed": 1}
