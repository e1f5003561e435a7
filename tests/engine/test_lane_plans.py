"""Pages that the statements of lanes touch: the same with 200 lanes and 20,000 tasks as with 10,000
lanes and 1,000,000 tasks, any plan; and claims of tasks without a lane beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from regente.engine.database import number_array, text_array
from regente.engine.priority_levels import BEGINNING, LevelRequest
from regente.engine.task_store import claim_params
from tests.engine.plans import explain

RUNNER = 1
BIGGEST = {"tasks", "lanes", "lane_queues"}
# The tasks of a lane are far from each other, as they came in. A tenth of the lanes is not ready,
# half have a limit, which is reached by a tenth of these.
FILL = """
INSERT INTO regente.runners (id, name, host, pid, version, pipelines, concurrency, lease_until)
  VALUES (1, 'r', 'h', 1, '0', '{main}', 100, now() + interval '1 day');
INSERT INTO regente.pipelines (name) VALUES ('main');
INSERT INTO regente.tasks (pipeline, lane, run_at, lane_run_at, queued_at)
  SELECT 'main', 'host-' || n % {lanes}, regente.in_lane(), now() - interval '1 hour', now()
  FROM generate_series(1, {tasks}) AS g (n);
INSERT INTO regente.tasks (pipeline, queued_at, run_at)
  SELECT 'main', now(), now() - interval '1 hour' FROM generate_series(1, 2000);
INSERT INTO regente.tasks (pipeline, lane, run_at, lane_run_at, status, runner_id, attempt)
  SELECT 'main', 'host-' || n * 20, regente.in_lane(), now(), 'running', 1, 1
  FROM generate_series(0, {lanes} / 20 - 1) AS l (n), generate_series(1, 4);
INSERT INTO regente.lanes (name, pipeline, concurrency)
  SELECT 'host-' || n, 'main', CASE WHEN n % 2 = 0 THEN 4 END
  FROM generate_series(0, {lanes} - 1) AS g (n);
INSERT INTO regente.lane_queues (lane, pipeline, ready_at)
  SELECT 'host-' || n, 'main', CASE WHEN n % 10 > 0 THEN now() - interval '1 hour' END
  FROM generate_series(0, {lanes} - 1) AS g (n);
"""


@pytest.fixture(
    scope="module",
    params=[(20_000, 200), (1_000_000, 10_000)],
    ids=["20k tasks in 200 lanes", "1M tasks in 10k lanes"],
)
def laned(
    request: pytest.FixtureRequest, server_url: str, template: str
) -> Iterator[psycopg.Connection[Any]]:
    tasks, lanes = request.param
    name = f"regente_lane_plans_{os.getpid()}_{lanes}"
    with psycopg.connect(server_url, autocommit=True) as server:
        parts = sql.Identifier(name), sql.Identifier(template)
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*parts))
        with psycopg.connect(make_conninfo(server_url, dbname=name), autocommit=True) as found:
            fill(found, tasks, lanes)
            yield found
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(parts[0]))


def fill(connection: psycopg.Connection[Any], tasks: int, lanes: int) -> None:
    """The indexes are built after the load, which is faster."""
    indexes = connection.execute(
        "SELECT format('%I.%I', schemaname, indexname), indexdef FROM pg_indexes "
        "WHERE schemaname = 'regente' AND tablename = 'tasks' AND indexname NOT LIKE '%_pkey'"
    ).fetchall()
    for table in ("tasks", "lanes", "lane_queues"):
        connection.execute(f"ALTER TABLE regente.{table} SET (autovacuum_enabled = off)")
    connection.execute("SET synchronous_commit = off")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    for statement in (
        FILL.replace("{tasks}", str(tasks)).replace("{lanes}", str(lanes)).split(";\n")
    ):
        if statement.strip():
            connection.execute(statement)
    for _, definition in indexes:
        connection.execute(definition)
    connection.execute(
        "VACUUM (ANALYZE) regente.tasks, regente.lanes, regente.lane_queues, regente.runners"
    )


def from_lanes(free: int, lanes: int) -> dict[str, Any]:
    return {
        "runner_id": RUNNER,
        "pipelines": "{main}",
        "limits": f"{{{free}}}",
        "free": free,
        "lanes": lanes,
        "quantum": 16,
    }


SOME = {
    "lanes": text_array([f"host-{n}" for n in range(100)]),
    "pipelines": text_array(["main"] * 100),
}
ENDS = {
    "lanes": text_array([f"host-{n}" for n in range(100)]),
    "ids": number_array(range(1, 101)),
    "verdicts": text_array(["failed"] * 100),
    "seconds": number_array([0] * 100),
}
PLAIN = {
    "runner_id": RUNNER,
    **claim_params([LevelRequest("main", 0, BEGINNING, 100)]),
    "free": 100,
}
LEVEL = {"pipelines": "{main}", "ranks": "{0}", "floors": "{-Infinity}", "floor_ids": "{0}"}
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("claim_lanes", 1_000, from_lanes(1, 4)),
    ("claim_lanes", 40_000, from_lanes(500, 40)),
    ("claim_lane_suspect", 200, {"runner_id": RUNNER, "pipelines": "{main}"}),
    ("survey_lanes", 100, {"pipelines": "{main}"}),
    ("look_at_lanes", 10_000, SOME),
    ("report_lanes", 8_000, ENDS),
    ("lanes_to_look_at", 12_000, {"after_lane": "", "after_pipeline": ""}),
    ("claim", 6_000, PLAIN),
    ("survey_levels", 50, LEVEL),
]


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("statistics", ["fresh", "none"])
@pytest.mark.parametrize("case", CASES, ids=[f"{name} {pages}" for name, pages, _ in CASES])
def test_the_cost_does_not_grow_with_lanes_and_tasks(
    laned: psycopg.Connection[Any],
    case: tuple[str, int, dict[str, Any]],
    statistics: str,
    mode: str,
) -> None:
    """Q2, S3: no full scan, and no more pages in a large database."""
    name, pages, params = case
    with laned.transaction(force_rollback=True):
        if statistics == "none":
            laned.execute(
                "DELETE FROM pg_statistic WHERE starelid IN ('regente.tasks'::regclass, "
                "'regente.lanes'::regclass, 'regente.lane_queues'::regclass)"
            )
        with laned.transaction(force_rollback=True):
            explain(laned, name, params, mode)  # the first one of a session reads the catalog, too
        plan = explain(laned, name, params, mode)
        lanes = laned.execute("SELECT count(*) FROM regente.lanes").fetchone()
    # A report of failures may read the table of lanes, which is small beside that of tasks.
    allowed = {"lanes"} if name == "report_lanes" else set()
    assert plan.pages <= pages
    if lanes != (200,):  # so few are read from end to end
        assert not (plan.scanned & BIGGEST) - allowed
        assert plan.rows_thrown_away <= 12_000
