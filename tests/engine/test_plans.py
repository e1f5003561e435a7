"""Pages that the engine's statements touch: the same with 20,000 and 1,000,000 tasks, any plan.

Each statement runs for real, prepared as the engine prepares it (with a plan for these parameters
and with one for any), with statistics and without, in a transaction that is rolled back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from regente.engine.database import number_array, text_array
from regente.engine.outcome import Ended, Failure
from regente.engine.task_store import Claim, Settlement, settle_params
from tests.engine.plans import explain, fill

RUNNER = 1
BATCH = 500


@pytest.fixture(scope="module", params=[20_000, 1_000_000], ids=["20k", "1M"])
def large(
    request: pytest.FixtureRequest, server_url: str, template: str
) -> Iterator[psycopg.Connection[Any]]:
    name = f"regente_plans_{os.getpid()}_{request.param}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        url = make_conninfo(server_url, dbname=name)
        fill(url, request.param)
        with psycopg.connect(url) as connection:
            yield connection
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@dataclass
class Case:
    """A statement, its parameters, and how many pages it may touch at most."""

    name: str
    pages: int
    params: dict[str, Any] = field(default_factory=dict)
    running: int = 0  # so many running tasks of RUNNER are its subject
    thrown_away: int = 1_000
    label: str = ""
    before: str = ""

    @property
    def id(self) -> str:
        return f"{self.name} {self.label}".strip()


def claim(count: int, levels: tuple[int, ...] = (4, 3, 2, 1, 0)) -> dict[str, Any]:
    both = [(pipeline, level) for pipeline in ("main", "other") for level in levels]
    return {
        "runner_id": RUNNER,
        "pipelines": text_array([pipeline for pipeline, _ in both]),
        "priorities": number_array([level for _, level in both]),
        "floors": text_array(["-infinity"] * len(both)),
        "limits": number_array([count] * len(both)),
        "free": count,
    }


LIST = {
    "pipeline": None,
    "statuses": None,
    "batch_id": None,
    "code": None,
    "before_id": None,
    "limit": 100,
}
PIPELINES = {"pipelines": "{main,other}"}

CASES = [
    Case("claim", 400, claim(1), label="1"),
    Case("claim", 6_000, claim(100), label="100"),
    Case("claim", 30_000, claim(500), label="500"),
    Case("claim_suspect", 150, {"runner_id": RUNNER, **PIPELINES}),
    Case("survey", 200, PIPELINES),
    Case("anything_running", 50, PIPELINES),
    Case("finish", 300, running=1, label="1"),
    Case("finish", 25_000, running=BATCH, label=str(BATCH)),
    Case("settle", 300, running=1, label="1"),
    Case("settle", 45_000, running=BATCH, label=str(BATCH)),
    Case("record_steps", 300, running=1, label="1"),
    Case("record_steps", 25_000, running=BATCH, label=str(BATCH)),
    Case("recall_steps", 10, {"task_id": 1100}),
    Case("reap", 25_000, {"limit": 1000, "max_crashes": 3}, label="no runner is lost"),
    Case(
        "reap",
        40_000,
        {"limit": 1000, "max_crashes": 3},
        label="a lost runner",
        thrown_away=1_500,
        before="UPDATE regente.runners SET status = 'lost' WHERE id = 1",
    ),
    Case("mark_lost_runners", 50),
    Case("canceled_here", 400, {"runner_id": RUNNER}),
    Case("hand_back", 15_000, {"runner_id": RUNNER, "except": "{}"}),
    Case("review_batches", 2_500, {"touched": "{3,4}", "all_open": False}, label="touched"),
    Case("review_batches", 2_500, {"touched": "{1}", "all_open": False}, label="a large one"),
    Case(
        "resume_batch",
        60_000,
        {"batch_id": 4, "details": None},
        label="running tasks of a batch",
        thrown_away=20_000,
        before="UPDATE regente.batches SET status = 'stalled' WHERE id = 4",
    ),
    Case(
        "forget_tasks",
        2_000,
        {"after": 0, "keep_seconds": 86400.0 * 30},
        label="nothing is old",
        thrown_away=20_000,
    ),
    Case(
        "forget_events",
        2_000,
        {"after_txid": "0", "after_id": 0, "keep_seconds": 86400.0 * 30},
        label="nothing is old",
    ),
    Case("forget_runners", 100, {"keep_seconds": 86400.0 * 30}),
    Case("forget_batches", 100, {"keep_seconds": 86400.0 * 30}),
    Case("expire", 30_000, {"limit": 1000}),
    Case(
        "expire",
        30_000,
        {"limit": 1000},
        label="with a time for one pipeline",
        thrown_away=6_000,
        before="UPDATE regente.pipelines SET expire_after = '1 day' WHERE name = 'other'",
    ),
    Case("release_stalled", 25_000, {"limit": 1000}, thrown_away=5_000),
    Case("due_schedules", 20, {"limit": 100}),
    Case("read_feed", 20, {"after_txid": "0", "after_id": 0, "limit": 100}),
    Case("get_tasks", 300, {"ids": number_array(list(range(1, 20_000, 400)))}),
    Case("cancel", 4_000, {"ids": number_array(list(range(1, 20_000, 400))), "details": None}),
    Case("retry", 5_000, {"ids": number_array(list(range(13, 20_000, 400))), "details": None}),
    Case("tasks_by_key", 20, {"pipelines": "{main,main}", "keys": "{key-3,nope}"}),
    Case("events_of_task", 10, {"task_id": 77, "limit": 100}),
]

# Questions are asked by people, each with another filter. They are not prepared, so each gets a
# plan of its own.
QUESTIONS = [
    Case("list_tasks", 100, LIST, label="newest"),
    Case("list_tasks", 100, {**LIST, "before_id": 10_000}, label="before an id"),
    Case("list_tasks", 100, {**LIST, "pipeline": "other"}, label="of a pipeline"),
    Case(
        "list_tasks",
        3_000,
        {**LIST, "statuses": "{failed}"},
        label="dead letters",
        thrown_away=25_000,
    ),
    Case(
        "list_tasks",
        300,
        {**LIST, "statuses": "{failed}", "pipeline": "main"},
        label="dead letters of a pipeline",
        thrown_away=25_000,
    ),
    Case(
        "list_tasks",
        8_000,
        {**LIST, "statuses": "{failed}", "code": "CODE3"},
        label="dead letters of a code",
        thrown_away=25_000,
    ),
    Case(
        "list_tasks", 3_000, {**LIST, "statuses": "{running}"}, label="running", thrown_away=25_000
    ),
    Case(
        "list_tasks",
        3_000,
        {**LIST, "statuses": "{running,queued}"},
        label="live",
        thrown_away=25_000,
    ),
    Case(
        "list_tasks",
        1_000,
        {**LIST, "statuses": "{canceled}"},
        label="canceled, of which there are none",
    ),
    Case(
        "list_tasks",
        1_000,
        {**LIST, "statuses": "{draft}", "pipeline": "main"},
        label="drafts, of which there are none",
    ),
    Case("list_tasks", 4_000, {**LIST, "batch_id": 50}, label="of a batch", thrown_away=100_000),
    Case(
        "list_tasks",
        100,
        {**LIST, "batch_id": 50, "statuses": "{failed}"},
        label="failed of a batch",
    ),
    Case("why", 10_000, {"task_id": 10}, label="queued", thrown_away=25_000),
    Case(
        "batch_ledger",
        6_000,
        {"id": 50, "name": None, "statuses": None, "before_id": None, "limit": 1},
    ),
]


def params_for(case: Case, connection: psycopg.Connection[Any]) -> dict[str, Any]:
    if not case.running:
        return case.params
    select = "SELECT id FROM regente.tasks WHERE status = 'running' ORDER BY id LIMIT %s"
    ids = [row[0] for row in connection.execute(select, (case.running,)).fetchall()]
    connection.execute("UPDATE regente.tasks SET runner_id = %s WHERE id = ANY (%s)", (RUNNER, ids))
    arrays = {"ids": number_array(ids), "attempts": number_array([1] * len(ids))}
    match case.name:
        case "finish":
            return {"runner_id": RUNNER, **arrays, "results": text_array(["1"] * len(ids))}
        case "settle":
            ended = Ended("queued", "task_retried", 1, 5.0, Failure("transient", "X", "x", "stack"))
            batch = [
                Settlement(Claim(task_id, "main", 1, 0, 0, None, None, "{}"), ended)
                for task_id in ids
            ]
            return {"runner_id": RUNNER, **settle_params(batch)}
        case _:
            return {
                "runner_id": RUNNER,
                **arrays,
                "checkpoints": text_array(["B"] * len(ids)),
                "progress": number_array([None] * len(ids)),
                "task_ids": number_array(ids),
                "names": text_array(["B"] * len(ids)),
                "items": number_array([-1] * len(ids)),
                "outputs": text_array(["1"] * len(ids)),
                "durations_ms": number_array([1] * len(ids)),
                "commit_within": "5s",
            }


def looked_at(large: psycopg.Connection[Any], case: Case, statistics: str, mode: str) -> None:
    with large.transaction(force_rollback=True):
        if statistics == "none":
            large.execute(
                "DELETE FROM pg_statistic WHERE starelid IN ('regente.tasks'::regclass, "
                "'regente.events'::regclass)"
            )
        params = params_for(case, large)
        if case.before:
            large.execute(case.before)
        plan = explain(large, case.name, params, mode)
    assert (
        not plan.scanned & LARGE or one_value(large, "SELECT count(*) FROM regente.tasks") < 100_000
    )
    assert plan.pages <= case.pages
    assert plan.rows_thrown_away <= case.thrown_away


def one_value(large: psycopg.Connection[Any], statement: str) -> Any:
    row = large.execute(statement).fetchone()
    assert row is not None
    return row[0]


LARGE = {"tasks", "events", "steps"}


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("statistics", ["fresh", "none"])
@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_statement_reads_only_the_rows_that_it_needs(
    large: psycopg.Connection[Any], case: Case, statistics: str, mode: str
) -> None:
    """S3, Q8, I10: no full scan, and the page count is independent of the history."""
    looked_at(large, case, statistics, mode)


@pytest.mark.parametrize("case", QUESTIONS, ids=[case.id for case in QUESTIONS])
def test_each_filter_of_a_list_uses_an_index(large: psycopg.Connection[Any], case: Case) -> None:
    """W5, O18."""
    looked_at(large, case, "fresh", "custom")


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_claim_does_not_read_tasks_of_a_later_time(
    large: psycopg.Connection[Any], mode: str
) -> None:
    """S3: nine of ten queued tasks are due tomorrow; a claim of ten reads few rows more."""
    with large.transaction(force_rollback=True):
        plan = explain(large, "claim", claim(10), mode)
    assert "tasks_to_claim" in plan.indexes
    assert plan.rows_thrown_away <= 20
    assert plan.pages <= 800


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_claim_from_a_floor_skips_dead_index_entries(
    large: psycopg.Connection[Any], mode: str
) -> None:
    """S3: before a vacuum the index still has the entries of claimed tasks."""
    with large.transaction(force_rollback=True):
        large.execute(
            "UPDATE regente.tasks SET status = 'canceled', finished_at = now() WHERE "
            "status = 'queued' AND run_at <= now()"
        )
        large.execute(
            "INSERT INTO regente.tasks (pipeline, run_at) SELECT 'main', now() FROM "
            "generate_series(1, 10)"
        )
        floor = one_value(large, "SELECT now()::text")
        plan = explain(large, "claim", {**claim(10), "floors": text_array([floor] * 10)}, mode)
    assert plan.pages <= 800
