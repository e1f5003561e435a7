"""The plans of every statement on the hot path, at 20,000 and at 1,000,000 tasks, as generic and as custom plans."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from regente.engine.database import number_array, text_array
from regente.engine.ledger import Claim, Settlement, settle_params
from regente.engine.outcome import Ended
from tests.engine.plans import PlanMode, explain

SIZES = (20_000, 1_000_000)
MODES: tuple[PlanMode, ...] = ("force_generic_plan", "force_custom_plan")
RUNNING = 1_000

# One in twenty still waits: a thousand due, the others for a later time, over five priority levels; the rest is history.
FILL = """
INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, lease_until)
  SELECT 'r' || n, 'h', n, '1', '{noop}', 100, now() + interval '1 hour' FROM generate_series(1, 20) AS n;
INSERT INTO regente.pipelines (name, stall_after) VALUES ('noop', '10 minutes'), ('other', '10 minutes');
INSERT INTO regente.batches (name, total, status) SELECT 'b' || n, 1, 'running' FROM generate_series(1, 50) AS n;
INSERT INTO regente.tasks (pipeline, status, priority, run_at, attempt, runner_id, finished_at, batch_id, claimed_at,
                           heartbeat_at, key, error_code)
SELECT CASE n %% 3 WHEN 0 THEN 'other' ELSE 'noop' END,
       s.status::regente.task_status, CASE WHEN s.status = 'queued' THEN n %% 5 ELSE 0 END,
       CASE WHEN s.status = 'queued' AND n %% 40 <> 0 THEN now() + interval '1 hour' ELSE now() - interval '1 minute' END,
       CASE WHEN s.status = 'queued' THEN 0 ELSE 1 END, CASE WHEN s.status = 'running' THEN 1 + n %% 20 END,
       CASE WHEN s.status IN ('completed', 'failed') THEN now() END, CASE WHEN n %% 100 = 0 THEN 1 + n %% 50 END,
       now(), now(), CASE WHEN n %% 10 = 0 THEN 'k' || n END, CASE WHEN s.status = 'failed' THEN 'BAD' END
FROM generate_series(1, %(size)s) AS n CROSS JOIN LATERAL (
  SELECT CASE WHEN n <= %(running)s THEN 'running' WHEN n %% 20 = 0 THEN 'queued' WHEN n %% 501 = 0 THEN 'failed'
              ELSE 'completed' END AS status) AS s;
INSERT INTO regente.events (task_id, event) SELECT n, 'task_completed' FROM generate_series(1, %(size)s, 5) AS n;
INSERT INTO regente.steps (task_id, name, attempt, output) SELECT n, 'A', 1, '1' FROM generate_series(1, %(size)s, 10) AS n;
"""


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size:,} tasks")
def filled(request: pytest.FixtureRequest, server_url: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    name = sql.Identifier(f"regente_plans_{os.getpid()}_{request.param}")
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))
        with psycopg.connect(make_conninfo(server_url, dbname=name.as_string().strip('"')), autocommit=True) as connection:
            for statement in FILL.split(";\n")[:-1]:
                needs = {"size": request.param, "running": RUNNING} if "%(" in statement else None
                psycopg.ClientCursor(connection).execute(statement if needs else statement.replace("%%", "%"), needs)
            connection.execute("VACUUM ANALYZE regente.tasks, regente.events, regente.steps, regente.runners, regente.batches")
            yield connection
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def running_ids(count: int) -> dict[str, Any]:
    """Tasks 1, 21, 41, … are held by runner 2."""
    ids = list(range(1, RUNNING + 1, 20))[:count]
    return {"runner_id": 2, "ids": number_array(ids), "attempts": number_array([1] * len(ids))}


def claim_params(count: int) -> dict[str, Any]:
    priorities = [4, 3, 2, 1, 0]
    return {
        "runner_id": 2,
        "pipelines": text_array(["noop"] * 5),
        "priorities": number_array(priorities),
        "floors": text_array(["-infinity"] * 5),
        "limits": number_array([count] * 5),
        "free": count,
    }


MARKS = {
    "checkpoints": text_array(["A"] * 50),
    "progress": number_array([None] * 50),
    "task_ids": running_ids(50)["ids"],
    "names": text_array(["B"] * 50),
    "items": number_array([-1] * 50),
    "outputs": text_array(["1"] * 50),
    "durations_ms": number_array([1.0] * 50),
    "commit_within": "5000ms",
}
ENDS = settle_params(
    [
        Settlement(
            Claim(task_id, "noop", 1, 0, 0, None, None, "{}"), Ended("queued", "task_retried", charged=1, delay_seconds=1)
        )
        for task_id in range(1, RUNNING + 1, 20)
    ]
)

# What each statement is given, and how many pages it may touch however many tasks there are: a few for every row it writes.
STATEMENTS: dict[str, tuple[dict[str, Any], int]] = {
    "claim": (claim_params(100), 4_000),
    "claim_suspect": ({"runner_id": 2, "pipelines": text_array(["noop"])}, 50),
    "survey": ({"runner_id": 2, "pipelines": text_array(["noop", "other"])}, 200),
    "finish": ({**running_ids(50), "results": text_array([None] * 50)}, 2_000),
    "settle": ({"runner_id": 2, **ENDS}, 3_000),
    "record_steps": ({**running_ids(50), **MARKS}, 2_000),
    "canceled_here": ({"runner_id": 2}, 20),
    "reap": ({"limit": 1000, "max_crashes": 3}, 4_000),
    "release_stalled": ({"limit": 1000}, 4_000),
    "mark_lost_runners": ({}, 50),
    "get_tasks": ({"ids": number_array([5, 6, 7])}, 50),
    "recall_steps": ({"task_id": 11}, 20),
    "events_of_task": ({"task_id": 11, "limit": 100}, 20),
    "cancel": ({"ids": number_array([20, 40])}, 400),
    "retry": ({"ids": number_array([501, 1002])}, 400),
    "read_feed": ({"after_txid": "0", "after_id": 0, "limit": 100}, 50),
}
SMALL_TABLES = {"runners", "batches", "pipelines"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_of_the_hot_path_reads_history(filled: psycopg.Connection[Any], name: str, mode: PlanMode) -> None:
    """S3, I10: what is finished costs nothing: no full scan, and a bound on the pages, at any size of the table."""
    params, most_pages = STATEMENTS[name]
    plan = explain(filled, name, params, mode)
    size = filled.execute("SELECT count(*) > 100000 FROM regente.tasks").fetchone()
    assert size is not None
    if size[0]:
        assert plan.scanned_in_full() <= SMALL_TABLES
    assert plan.pages <= most_pages


@pytest.mark.parametrize("mode", MODES)
def test_tasks_that_wait_for_a_later_time_are_not_stepped_over(filled: psycopg.Connection[Any], mode: PlanMode) -> None:
    """S3: nearly all queued tasks wait for an hour; a claim of ten looks at little more than ten."""
    plan = explain(filled, "claim", claim_params(10), mode)
    assert "tasks_to_claim" in plan.indexes()
    assert plan.rows_removed <= 20
    assert plan.pages <= 600


@pytest.mark.parametrize("mode", MODES)
def test_a_claim_from_a_floor_skips_what_earlier_claims_left_behind(filled: psycopg.Connection[Any], mode: PlanMode) -> None:
    """S3: without a vacuum the index still holds the entries of tasks claimed before."""
    with filled.transaction(force_rollback=True):
        filled.execute(
            "UPDATE regente.tasks SET status = 'canceled', finished_at = now() WHERE status = 'queued' AND run_at <= now()"
        )
        filled.execute("INSERT INTO regente.tasks (pipeline, run_at) SELECT 'noop', now() FROM generate_series(1, 10)")
        floor = filled.execute("SELECT now()::text").fetchone()
        assert floor is not None
        params = {**claim_params(10), "floors": text_array([floor[0]] * 5)}
        plan = explain(filled, "claim", params, mode)
    assert plan.pages <= 600
