"""The state machine as the database enforces it, also against SQL written by hand."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from regente.engine.models import STATUSES, TERMINAL
from tests.engine.helpers import Sql, SqlRunner, one, task_row

LEGAL = {
    "draft": {"queued", "canceled"},
    "queued": {"running", "canceled", "failed"},
    "running": {"completed", "skipped", "failed", "canceled", "queued"},
    "completed": set(),
    "failed": {"queued", "canceled"},
    "canceled": {"queued"},
    "skipped": {"queued"},
}
PAIRS = list(itertools.product(STATUSES, STATUSES))


def put(sql: Sql, status: str) -> int:
    """A task in this status, inserted by SQL."""
    row = one(
        sql,
        "INSERT INTO regente.tasks (pipeline, status, runner_id, finished_at) VALUES ('p', "
        "%s, %s, %s) RETURNING id",
        status,
        1 if status == "running" else None,
        "2026-01-01T00:00:00Z" if status in TERMINAL else None,
    )
    return int(row["id"])


def move(sql: Sql, task_id: int, status: str) -> None:
    sql.execute(
        "UPDATE regente.tasks SET status = %s, runner_id = %s, finished_at = %s WHERE id = %s",
        (
            status,
            1 if status == "running" else None,
            "2026-01-01T00:00:00Z" if status in TERMINAL else None,
            task_id,
        ),
    )


def test_the_enum_has_exactly_the_states_that_the_api_names(sql: Sql) -> None:
    """O2, I5: one list of states, in the database and in Python, in the same order."""
    labels = sql.execute(
        "SELECT unnest(enum_range(NULL::regente.task_status))::text AS status"
    ).fetchall()
    assert tuple(row["status"] for row in labels) == STATUSES
    assert set(LEGAL) == set(STATUSES)


@pytest.mark.parametrize(("before", "after"), [(a, b) for a, b in PAIRS if b in LEGAL[a]])
def test_legal_transition_is_accepted(sql: Sql, before: str, after: str) -> None:
    """O2, I5: every transition of the table."""
    task_id = put(sql, before)
    move(sql, task_id, after)
    assert task_row(sql, task_id)["status"] == after


@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a, b in PAIRS if a != b and b not in LEGAL[a]]
)
def test_illegal_transition_is_refused_with_its_own_sqlstate(
    sql: Sql, before: str, after: str
) -> None:
    """O2, I5: every other pair is refused, by name, and changes nothing."""
    task_id = put(sql, before)
    with pytest.raises(
        psycopg.Error, match=f"task {task_id} cannot go from {before} to {after}"
    ) as refused:
        move(sql, task_id, after)
    assert refused.value.sqlstate == "RG001"
    assert task_row(sql, task_id)["status"] == before


@pytest.mark.parametrize("status", STATUSES)
def test_writing_the_same_state_again_is_no_transition(sql: Sql, status: str) -> None:
    """I5: an UPDATE that names `status` without changing it is harmless."""
    task_id = put(sql, status)
    move(sql, task_id, status)
    assert task_row(sql, task_id)["status"] == status


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("running_has_an_owner", "status = 'running'"),
        ("running_has_an_owner", "runner_id = 7"),
        ("terminal_is_finished", "status = 'canceled'"),
        ("terminal_is_finished", "finished_at = now()"),
        ("counters_only_rise", "attempt = -1"),
        ("counters_only_rise", "tries = -1"),
        ("counters_only_rise", "crashes = -1"),
    ],
)
def test_check_constraints_hold(sql: Sql, constraint: str, change: str) -> None:
    """S5, I4: an owner exactly while running, an end exactly when ended, no counter below zero."""
    task_id = put(sql, "queued")
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        sql.execute(f"UPDATE regente.tasks SET {change} WHERE id = {task_id}")


def test_failure_class_is_one_of_the_known(sql: Sql) -> None:
    """I7: a dead letter's reason is classified."""
    with pytest.raises(psycopg.errors.CheckViolation, match="class"):
        sql.execute(
            "INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, "
            "message, fingerprint) "
            "VALUES (1, 1, 'p', 'mystery', 'X', 'x', 'x')"
        )


@pytest.mark.parametrize("change", ["status = 'completed'", "finished_at = now()"])
def test_batch_is_finished_exactly_when_it_ended(sql: Sql, change: str) -> None:
    """I9: an ended batch has an end, an open one has none."""
    sql.execute("INSERT INTO regente.batches (name) VALUES ('b')")
    with pytest.raises(psycopg.errors.CheckViolation, match="ended_is_finished"):
        sql.execute(f"UPDATE regente.batches SET {change}")


def test_one_pipeline_and_key_name_one_task(sql: Sql) -> None:
    """S5: the key is unique per pipeline, for every writer."""
    sql.execute(
        "INSERT INTO regente.tasks (pipeline, key) VALUES ('p', 'k'), ('q', 'k'), ('p', "
        "NULL), ('p', NULL)"
    )
    with pytest.raises(psycopg.errors.UniqueViolation, match="tasks_once_per_key"):
        sql.execute("INSERT INTO regente.tasks (pipeline, key) VALUES ('p', 'k')")


def test_finishing_clears_the_lock(sql: Sql) -> None:
    """S5, S1: an ended task has no owner, and the view of locks does not list it."""
    sql_runner = SqlRunner.register(sql, ["p"])
    task_id = put(sql, "queued")
    assert sql_runner.claim() == [task_id]
    assert one(sql, "SELECT count(*) FROM regente.locks")["count"] == 1
    assert sql_runner.finish(task_id) == [task_id]
    row = task_row(sql, task_id)
    assert (row["status"], row["runner_id"], row["cancel_requested_at"]) == (
        "completed",
        None,
        None,
    )
    assert one(sql, "SELECT count(*) FROM regente.locks")["count"] == 0
