"""Pages that the engine's statements touch: the same with 20,000 and 1,000,000 tasks, any plan.

Each statement runs for real, prepared as the engine prepares it (with a plan for these parameters
and with one for any), with statistics and without, in a transaction that is rolled back.
"""

from __future__ import annotations

import contextlib
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
from regente.engine.priority_levels import BEGINNING, LevelRequest, Place
from regente.engine.task_store import Claim, Settlement, claim_params, settle_params
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
        with psycopg.connect(url, autocommit=True) as connection:
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


def claim(
    count: int, ranks: tuple[int, ...] = tuple(range(9, -1, -1)), floor: Place = BEGINNING
) -> dict[str, Any]:
    asked = [
        LevelRequest(pipeline, rank, floor, count)
        for pipeline in ("main", "other")
        for rank in ranks
    ]
    return {"runner_id": RUNNER, **claim_params(asked), "free": count}


LIST = {
    "pipeline": None,
    "statuses": None,
    "batch_id": None,
    "code": None,
    "before_id": None,
    "limit": 100,
}
PIPELINES = {"pipelines": "{main,other}"}


NEW_BATCH = (
    "INSERT INTO regente.batches (id, name, total, status) OVERRIDING SYSTEM VALUE "
    "VALUES (1000, 'new', 5000, 'running'); "
    "INSERT INTO regente.tasks (pipeline, batch_id) SELECT 'main', 1000 "
    "FROM generate_series(1, 5000)"
)


def known_levels(floor: Place) -> dict[str, Any]:
    """The parameters of a survey of the levels that exist."""
    levels = [(pipeline, rank) for pipeline in ("main", "other") for rank in range(10)]
    return {
        "pipelines": text_array([pipeline for pipeline, _ in levels]),
        "ranks": number_array([rank for _, rank in levels]),
        "floors": number_array([floor[0]] * len(levels)),
        "floor_ids": number_array([floor[1]] * len(levels)),
    }


CASES = [
    Case("claim", 400, claim(1), label="1"),
    Case("claim", 6_000, claim(100), label="100"),
    Case("claim", 30_000, claim(500), label="500"),
    Case("claim_suspect", 150, {"runner_id": RUNNER, **PIPELINES}),
    Case("survey", 300, PIPELINES),
    Case("survey_levels", 100, known_levels(BEGINNING)),
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
    Case("to_be_stopped", 10, running=1, label="1"),
    Case("to_be_stopped", 2_500, running=BATCH, label=str(BATCH)),
    Case("hand_back", 15_000, {"runner_id": RUNNER, "except": "{}"}),
    Case("review_batches", 2_500, {"touched": "{3,4}", "all_open": False}, label="touched"),
    Case("review_batches", 2_500, {"touched": "{1}", "all_open": False}, label="a large one"),
    Case(
        "review_batches",
        200,
        {"touched": "{1000}", "all_open": False},
        label="a young one with many queued tasks",
        before=NEW_BATCH,
    ),
    Case(
        "review_batches",
        4_000,  # of all open batches the running tasks, for progress and for their health; one of
        # them stalls, and the task that it waits for is recorded
        {"touched": "{}", "all_open": True},
        label="one without progress whose tasks are due tomorrow",
        before=f"{NEW_BATCH}; UPDATE regente.batches SET progress_at = now() - interval '1 hour'; "
        "INSERT INTO regente.tasks (pipeline, batch_id, run_at) "
        "SELECT 'main', 1000, now() + interval '1 day' FROM generate_series(1, 5000)",
    ),
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
        {"after": 0, "keep_seconds": 86400.0 * 30, "kept_too": False},
        label="nothing is old",
        thrown_away=20_010,
    ),
    Case(
        "forget_events",
        2_000,
        {
            "after_txid": "0",
            "after_id": 0,
            "keep_seconds": 86400.0 * 30,
            "audit_seconds": 86400.0 * 365,
            "kept_too": False,
        },
        label="nothing is old",
        thrown_away=1_010,
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
    Case("due_schedules", 20, {"limit": 100, "max_waiting": 1000}),
    Case("waiting_schedules", 20, {"after": "", "limit": 100}),
    Case("forget_schedule_runs", 20, {"keep_seconds": 86400.0 * 30}),
    Case("read_feed", 120, {"after_txid": "0", "after_id": 0, "limit": 100}),
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
        {
            "id": 50,
            "name": None,
            "statuses": None,
            "before_id": None,
            "parent_id": None,
            "limit": 1,
        },
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
                "calls": text_array(["f()"] * len(ids)),
                "within": "5s",
            }


@contextlib.contextmanager
def rolled_back(large: psycopg.Connection[Any], *, inserts: bool) -> Iterator[None]:
    """A transaction whose rows leave no dead index entries behind: autovacuum is off here."""
    try:
        with large.transaction(force_rollback=True):
            yield
    finally:
        if inserts:
            large.execute("VACUUM (INDEX_CLEANUP ON) regente.tasks")


def looked_at(large: psycopg.Connection[Any], case: Case, statistics: str, mode: str) -> None:
    with rolled_back(large, inserts="INSERT INTO regente.tasks" in case.before):
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
@pytest.mark.parametrize("name", ["claim", "survey_levels"])
def test_nothing_from_a_floor_on_steps_over_dead_index_entries(
    large: psycopg.Connection[Any], name: str, mode: str
) -> None:
    """S3: the index has the entries of claimed tasks until a vacuum, which an old snapshot of
    another session may prevent. All tasks of a bulk enqueue have one `run_at`."""
    with rolled_back(large, inserts=True):
        large.execute(
            "INSERT INTO regente.tasks (pipeline, run_at) SELECT 'main', now() - "
            "interval '1 minute' FROM generate_series(1, 10010)"
        )
        last = one_value(large, "SELECT max(id) FROM regente.tasks") - 10
        large.execute(
            "UPDATE regente.tasks SET status = 'canceled', finished_at = now() WHERE "
            "status = 'queued' AND run_at <= now() AND id <= %s",
            (last,),
        )
        run_at = one_value(
            large, "SELECT extract(epoch FROM now() - interval '1 minute')::double precision"
        )
        floor = (run_at, last)
        params = claim(10, floor=floor) if name == "claim" else known_levels(floor)
        plan = explain(large, name, params, mode)
    assert plan.pages <= (800 if name == "claim" else 100)


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("name", ["claim", "survey_levels", "survey"])
def test_the_cost_of_a_look_at_many_pipelines_is_linear(
    large: psycopg.Connection[Any], name: str, mode: str
) -> None:
    """S3: 2,000 pipelines without a task are one index probe each, or a few; they are not compared
    with each other."""
    names = [f"p{n}" for n in range(2_000)]
    asked = [LevelRequest(pipeline, 0, BEGINNING, 100) for pipeline in names]
    levels = dict.fromkeys(("ranks", "floors", "floor_ids"), number_array([0] * 2_000))
    params: dict[str, dict[str, Any]] = {
        "claim": {"runner_id": RUNNER, **claim_params(asked), "free": 100},
        "survey_levels": {"pipelines": text_array(names), **levels},
        "survey": {"pipelines": text_array(names)},
    }
    with large.transaction(force_rollback=True):
        plan = explain(large, name, params[name], mode)
    assert plan.rows_thrown_away <= 2_000
    assert plan.pages <= 2_000 * 10
