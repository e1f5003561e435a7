"""The dispatcher: one task while the orchestrator is open. It starts a driver for each worker, and
closes the orchestrator when no mission is queued or running.

The *orchestrator state* (open, draining, halting, closed) is one row, `regente.orchestrator`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from regente.engine.client import Client
from regente.engine.log import logger
from regente.engine.task import Task
from regente.fleet.registry import Fleet
from regente.pipelines.missions.queries import QUERIES, brief_transaction
from regente.queries import Row


@dataclass(frozen=True, slots=True)
class Dispatcher:
    client: Client
    fleet: Fleet

    async def dispatch(self, task: Task[dict[str, Any]]) -> str:
        """The pipeline `orchestrator`: start drivers until no mission is left."""
        while True:
            state = (await QUERIES.fetch_all(self.fleet.database, "orchestrator"))[0]
            if _is_over(state) and await self._close(task):
                return "closed"
            if state["state"] == "open" and (state["any_queued"] or state["any_running"]):
                await self._ensure_drivers(task)
            await task.heartbeat()
            await asyncio.sleep(self.fleet.config.polling_orchestrator_seconds)

    async def _ensure_drivers(self, task: Task[Any]) -> None:
        async with brief_transaction(task) as connection:
            workers = [row["id"] for row in await QUERIES.fetch_all(connection, "undriven_workers")]
            if workers:
                tasks = await self.client.enqueue_many(
                    "workers", [{"worker_id": worker} for worker in workers], connection=connection
                )
                await QUERIES.execute(connection, "set_driver", worker_ids=workers, task_ids=tasks)
                logger.info("drivers started", extra={"workers": len(workers)})

    async def _close(self, task: Task[Any]) -> bool:
        """Close the orchestrator, if nothing is left under the lock that queueing takes too."""
        async with brief_transaction(task) as connection:
            locked = await QUERIES.fetch_one(connection, "lock_orchestrator")
            state = await QUERIES.fetch_one(connection, "orchestrator")
            if state is None or locked is None or not _is_over(state):
                return False
            if locked["task_id"] == task.id:
                await QUERIES.execute(connection, "hand_back")
                await QUERIES.execute(connection, "close_orchestrator")
                await task.event(
                    "orchestrator_closed", connection=connection, stopped_by=state["stopped_by"]
                )
            return True


def _is_over(state: Row) -> bool:
    if state["state"] == "closed":
        return True
    if state["state"] == "open":
        return not state["any_queued"] and not state["any_running"]
    return not state["any_running"] and not state["any_begun"]


async def open_dispatcher(
    client: Client, connection: AsyncConnection[Any], *, by: str, on_request: bool
) -> bool:
    """Open the orchestrator in the transaction that queues missions, or of a start `on_request`,
    and enqueue the dispatcher's task. False: it stays closed, because a person stopped it."""
    locked = await QUERIES.fetch_one(connection, "lock_orchestrator")
    assert locked is not None, "the orchestrator's row is part of the schema"
    if not on_request and (
        locked["stopped_by"] is not None or locked["state"] in ("draining", "halting")
    ):
        return False
    task_id = locked["task_id"]
    if not locked["has_dispatcher"]:
        task_id = await client.enqueue("orchestrator", {}, connection=connection)
        await QUERIES.execute(
            connection, "log_action", event="orchestrator_opened", details=json.dumps({"by": by})
        )
    await QUERIES.execute(connection, "open_orchestrator", task_id=task_id)
    return True
