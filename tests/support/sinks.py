"""Record every effect of a task, duplicates included.

Database effects go into a table without any key, external ones into a file opened with O_APPEND.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from regente import Task
from regente.engine.database import TaskConnection

CREATE_SINK = """
CREATE TABLE IF NOT EXISTS public.sink (
  id integer GENERATED ALWAYS AS IDENTITY, task_id bigint NOT NULL, step text NOT NULL,
  attempt integer NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
ARRIVE = "INSERT INTO public.sink (task_id, step, attempt) VALUES (%s, %s, %s)"


def create_sink(connection: psycopg.Connection[Any]) -> None:
    connection.execute(CREATE_SINK)


def sink_arrivals(connection: psycopg.Connection[Any]) -> Counter[tuple[int, str]]:
    """How often the effect of each (task, step) was recorded."""
    rows = connection.execute(
        "SELECT task_id, step, count(*) FROM public.sink GROUP BY task_id, step"
    ).fetchall()
    return Counter({(task_id, step): count for task_id, step, count in rows})


async def store_arrival(task: Task, step: str) -> int:
    """Record an effect in the database; the id of its row, the same at every attempt."""

    async def arrive(connection: TaskConnection) -> int:
        cursor = await connection.execute(f"{ARRIVE} RETURNING id", (task.id, step, task.attempt))
        return int((await cursor.fetchone())[0])

    return await task.transact(step, arrive)


def results_that_were_not_committed(connection: psycopg.Connection[Any]) -> list[Any]:
    """The steps of `store_arrival` that recorded another id than that of their effect."""
    return connection.execute(
        "SELECT s.task_id, s.name, s.output::text, k.id FROM regente.steps s "
        "JOIN public.sink k ON k.task_id = s.task_id AND k.step = s.name "
        "WHERE s.output IS NOT NULL AND s.output::text <> k.id::text"
    ).fetchall()


class ExternalSink:
    """An external service: its effects cannot be rolled back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def arrive(self, key: str, attempt: int) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(
                fd, f"{key} {attempt}\n".encode()
            )  # one write: lines of several processes never mix
        finally:
            os.close(fd)

    def arrivals(self) -> list[tuple[str, int]]:
        """(idempotency key, attempt) in the order of arrival."""
        if not self.path.exists():
            return []
        return [
            (key, int(attempt))
            for key, attempt in (line.split() for line in self.path.read_text().splitlines())
        ]
