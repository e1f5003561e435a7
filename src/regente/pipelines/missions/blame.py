"""Whose fault it was, and what follows. A strike against a proxy; three and it is out, unless most
of them fail at once: then the fault lies elsewhere. A worker that refuses our key is out at once.
"""

from __future__ import annotations

from typing import Any

from regente.engine.database import TaskConnection
from regente.engine.log import logger
from regente.engine.task import Task
from regente.fleet.config import FleetConfig
from regente.pipelines.missions.queries import QUERIES


async def blame_proxy(
    task: Task[Any], connection: TaskConnection, config: FleetConfig, proxy_id: str, reason: str
) -> None:
    row = await QUERIES.fetch_one(
        connection,
        "blame_proxy",
        proxy_id=proxy_id,
        reason=reason,
        max_failures=config.max_proxy_failures,
        window_seconds=config.breaker_window_seconds,
        share=config.breaker_share,
    )
    if row is None:
        return
    if not row["active"]:
        await task.event(
            "proxy_deactivated",
            connection=connection,
            id=proxy_id,
            proxy_name=row["name"],
            fail_count=row["fail_count"],
            reason=reason,
            by="regente",
        )
    if row["outage"] and await QUERIES.fetch_all(connection, "open_breaker"):
        logger.error(
            "most proxies fail: the target may be down; none is put out, one worker at a "
            "time tries again"
        )
        await task.event(
            "proxy_breaker_opened", connection=connection, proxy_name=row["name"], reason=reason
        )


async def give_up_worker(
    task: Task[Any], connection: TaskConnection, worker_id: str, code: str, message: str
) -> None:
    """A worker that does not let us in is not asked again until a person has seen to it."""
    row = await QUERIES.fetch_one(
        connection, "deactivate_worker", worker_id=worker_id, code=code, message=message
    )
    if row is not None:
        await task.event(
            "worker_deactivated",
            connection=connection,
            id=worker_id,
            name=row["name"],
            by="regente",
            reason=message,
        )
