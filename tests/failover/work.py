"""The pipelines of the failover tests, in runners of their own. Every effect is recorded raw."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from regente import Retry, Task, pipeline
from tests.support.sinks import ExternalSink, store_arrival

FOLDER = Path(os.environ["FAILOVER_FOLDER"])
SINK = ExternalSink(FOLDER / "calls")


@pipeline("effects", retry=Retry(max_attempts=1))
async def effects(task: Task[dict[str, Any]]) -> None:
    await task.step("CALL", call, task.idempotency_key("CALL"), task.args["number"])
    await store_arrival(task, "STORE")
    await task.step("END", str)


@pipeline("gated", retry=Retry(max_attempts=1))
async def gated(task: Task[dict[str, Any]]) -> None:
    """Waits before its effect, and between that and its end."""
    await _wait_for("effect")
    await store_arrival(task, "STORE")
    await _wait_for("end")


async def _wait_for(name: str) -> None:
    while not (FOLDER / name).exists():
        await asyncio.sleep(0.05)


async def call(key: str, number: int) -> None:
    SINK.arrive(key, number)
