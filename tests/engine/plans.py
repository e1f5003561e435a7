"""Reads plans: runs a named statement under EXPLAIN ANALYZE, as a generic and as a custom plan, and rolls it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg import sql

from regente.engine.queries import query

PlanMode = Literal["force_generic_plan", "force_custom_plan"]
_PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class Plan:
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        pending = [self.root]
        while pending:
            node = pending.pop()
            yield node
            pending += node.get("Plans", [])

    def scanned_in_full(self) -> set[str]:
        return {node["Relation Name"] for node in self.nodes() if node["Node Type"] == "Seq Scan" and node["Actual Loops"]}

    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    @property
    def pages(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    @property
    def rows_removed(self) -> int:
        """Rows that were fetched and thrown away."""
        return sum(
            node["Actual Loops"] * (node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
            for node in self.nodes()
        )


def explain(connection: psycopg.Connection[Any], name: str, params: dict[str, Any], mode: PlanMode) -> Plan:
    """The plan with which the statement really ran."""
    names = list(dict.fromkeys(_PARAMETER.findall(query(name))))
    text = _PARAMETER.sub(lambda match: f"${names.index(match.group(1)) + 1}", query(name)).replace("%%", "%")
    arguments = sql.SQL(", ").join(sql.Literal(params[one]) for one in names)
    call = sql.SQL("({})").format(arguments) if names else sql.SQL("")
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL jit = off")
        connection.execute(sql.SQL("SET LOCAL plan_cache_mode = {}").format(sql.Identifier(mode)))
        connection.execute(f"PREPARE explained AS {text}")
        try:
            command = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained{}").format(call)
            row = connection.execute(command).fetchone()
        finally:
            connection.execute("DEALLOCATE explained")
    assert row is not None
    return Plan(row[0][0]["Plan"])
