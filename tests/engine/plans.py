"""Large databases for the EXPLAIN tests, and readers of their plans."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from regente.engine.queries import query

PLACEHOLDER = re.compile(r"%\((\w+)\)s")

# A hundredth of the tasks wait for a runner, a tenth for their time (at the head of the queue, in
# five priorities, each with new and returned tasks), a few run, a few are dead; the rest is
# history, a fifth of it in batches.
_FILL = """
INSERT INTO regente.tasks (id, pipeline, status, priority, run_at, runner_id, attempt, started_at,
                           claimed_at, heartbeat_at,
                           finished_at, cancel_requested_at, batch_id, error_code, key, crashes,
                           queued_at)
SELECT n, CASE n % 4 WHEN 0 THEN 'other' ELSE 'main' END, kind::regente.task_status,
       CASE WHEN kind = 'queued' THEN n % 5 ELSE 0 END,
       CASE WHEN kind = 'queued' AND n % 100 < 10 THEN now() + interval '1 day'
            ELSE now() - interval '1 hour' END,
       CASE WHEN kind = 'running' THEN 1 + n / 100 % 50 END,
       CASE WHEN kind = 'queued' THEN n / 100 % 2 ELSE 1 END, now(), now(), now(),
       CASE WHEN kind IN ('completed', 'failed') THEN now() - n * interval '1 second' END,
       CASE WHEN kind = 'running' AND n % 1000 = 11 THEN now() END,
       CASE WHEN n % 100 = 10 THEN 1 WHEN n % 5 = 2 THEN 2 + n % 97 END,
       CASE WHEN kind = 'failed' THEN 'CODE' || n / 100 % 7 END,
       CASE WHEN n % 3 = 0 THEN 'key-' || n END,
       CASE WHEN kind = 'queued' AND n % 10000 = 10 THEN 2 ELSE 0 END, now()
FROM (SELECT n, CASE WHEN n % 100 < 11 THEN 'queued' WHEN n % 200 = 11 THEN 'running'
      WHEN n % 200 = 13 THEN 'failed'
                     ELSE 'completed' END AS kind
      FROM generate_series(1, %(rows)s::bigint) AS g (n)) AS t;
INSERT INTO regente.events (task_id, batch_id, event)
  SELECT n, CASE WHEN n % 5 = 2 THEN 2 + n % 97 END, 'task_queued'
  FROM generate_series(1, %(rows)s::bigint) AS g (n);
INSERT INTO regente.steps (task_id, name, attempt, output)
  SELECT n * 11, 'A', 1, '1' FROM generate_series(1, %(rows)s::bigint / 20) AS g (n);
INSERT INTO regente.runners (id, name, host, pid, version, pipelines, concurrency, lease_until,
                             status)
  SELECT n, 'r' || n, 'h', n, '0', '{main,other}', 100, now() + interval '1 day',
         CASE WHEN n > 50 THEN 'stopped' ELSE 'running' END::regente.runner_status
  FROM generate_series(1, 1000) AS g (n);
INSERT INTO regente.batches (name, total, status, finished_at)
  SELECT 'b' || n, 1, CASE WHEN n < 5 THEN 'running'
      ELSE 'completed' END::regente.batch_status, CASE WHEN n >= 5 THEN now() END
  FROM generate_series(1, 100) AS g (n);
INSERT INTO regente.pipelines (name, stall_after) VALUES ('main', '10 minutes'),
            ('other', '10 minutes');
SELECT setval(pg_get_serial_sequence('regente.tasks', 'id'), %(rows)s::bigint);
"""


def fill(url: str, rows: int) -> None:
    """Inserts the rows and builds the secondary indexes after the load, which is much faster."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("tasks", "events", "steps", "runners", "batches"):
            connection.execute(f"ALTER TABLE regente.{table} SET (autovacuum_enabled = off)")
        indexes = connection.execute(
            "SELECT format('%I.%I', schemaname, indexname), indexdef FROM pg_indexes "
            "WHERE schemaname = 'regente' AND tablename IN ('tasks', 'events') AND "
            "indexname NOT LIKE '%_pkey'"
        ).fetchall()
        connection.execute("SET maintenance_work_mem = '256MB'")
        connection.execute("SET synchronous_commit = off")
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        with connection.transaction():
            for statement in _FILL.split(";\n"):
                if statement.strip():
                    connection.execute(statement.replace("%(rows)s", str(rows)))
        for _, definition in indexes:
            connection.execute(definition)
        connection.execute(
            "VACUUM (ANALYZE) regente.tasks, regente.events, regente.steps, "
            "regente.runners, regente.batches"
        )


@dataclass(frozen=True)
class Plan:
    nodes: list[dict[str, Any]]

    @property
    def scanned(self) -> set[str]:
        """Tables that were read from end to end."""
        return {
            node["Relation Name"]
            for node in self.nodes
            if node["Node Type"] == "Seq Scan" and node["Actual Loops"]
        }

    @property
    def pages(self) -> int:
        """Pages touched by the statement and by each part that writes. Some are counted twice."""
        parts = [
            node
            for node in self.nodes
            if node.get("Subplan Name", "").startswith("CTE") or node is self.nodes[0]
        ]
        return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in parts)

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def rows_thrown_away(self) -> int:
        removed = (
            "Rows Removed by Filter",
            "Rows Removed by Index Recheck",
            "Rows Removed by Join Filter",
        )
        return int(
            sum(node.get(key, 0) * node["Actual Loops"] for node in self.nodes for key in removed)
        )


def explain(
    connection: psycopg.Connection[Any], name: str, params: dict[str, Any], mode: str
) -> Plan:
    """Runs the named statement prepared, as the engine does; its plan. The caller rolls back."""
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = PLACEHOLDER.sub(numbered, query(name)).replace("%%", "%")
    connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
    connection.execute("SET LOCAL jit = off")
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE looked_at AS {text}")
    values = sql.SQL(", ").join(sql.Literal(params[name]) for name in names)
    arguments = sql.SQL("({})").format(values) if names else sql.SQL("")
    statement = (
        sql.SQL("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE looked_at") + arguments
    )
    row = connection.execute(statement).fetchone()
    assert row is not None
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return Plan(list(_walk(found[0]["Plan"])))


def _walk(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)
