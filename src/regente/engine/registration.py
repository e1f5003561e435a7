"""Registers a runner and its pipelines in the database."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from regente.engine.code_version import package_version, versions_of
from regente.engine.codec import json_schema
from regente.engine.crashpoints import crash_point
from regente.engine.database import number_array, text_array
from regente.engine.lanes import LaneLimits
from regente.engine.pipeline import Pipeline
from regente.engine.task_store import Installation

NO_LIMITS = LaneLimits(breaker=None)

Fetch = Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]]


async def register_runner(
    fetch: Fetch,
    name: str,
    pipelines: Sequence[Pipeline],
    concurrency: int,
    ttl_seconds: float,
    connections: str,
) -> int:
    """The runner's id, new at every start, with its first lease."""
    params = {
        "name": name,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": package_version("regente") or "unknown",
        "pipelines": text_array([pipeline.name for pipeline in pipelines]),
        "versions": json.dumps(versions_of(pipelines)),
        "concurrency": concurrency,
        "ttl_seconds": ttl_seconds,
        "connections": connections,
    }
    rows = await fetch("register_runner", params)
    crash_point("register.committed")
    return int(rows[0][0])


async def read_installation(fetch: Fetch) -> Installation:
    ((installation_id, since_us),) = await fetch("installation", {})
    return Installation(installation_id, since_us)


async def register_pipelines(fetch: Fetch, pipelines: list[Pipeline]) -> None:
    """Store what clients and other runners need to know about the pipelines without their code."""
    limits = [pipeline.lane_limits or NO_LIMITS for pipeline in pipelines]
    params = {
        "names": text_array([pipeline.name for pipeline in pipelines]),
        "stall_afters": number_array([pipeline.stall_after_seconds for pipeline in pipelines]),
        "expire_afters": number_array([pipeline.expire_after_seconds for pipeline in pipelines]),
        "max_attempts": number_array([pipeline.retry.max_attempts for pipeline in pipelines]),
        "endless": text_array(["t" if pipeline.endless else "f" for pipeline in pipelines]),
        "kept": text_array(["t" if pipeline.keep else "f" for pipeline in pipelines]),
        "args_schemas": text_array([json_schema(pipeline.args_type) for pipeline in pipelines]),
        "tell_lanes": text_array(["t" if pipeline.lane else "f" for pipeline in pipelines]),
        "lane_concurrencies": number_array([one.concurrency for one in limits]),
        "lane_rates": number_array([one.rate for one in limits]),
        "lane_bursts": number_array([one.burst for one in limits]),
        "lane_min_rates": number_array([one.min_rate for one in limits]),
        "lane_weights": number_array([one.weight for one in limits]),
        "lane_breakers": number_array([one.breaker for one in limits]),
    }
    await fetch("register_pipelines", params)
