"""Tasks in lanes that call the target server, which counts them."""

from __future__ import annotations

import asyncio
import os

from regente import LaneLimits, Retry, Task, pipeline

RETRY = Retry(max_attempts=5, first=0.05, jitter=False)
LIMIT, RATE = 3, 20.0


async def call(task: Task) -> None:
    """Hold a connection to the target for as long as it takes to answer."""
    port = int(os.environ["TARGET_PORT"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{task.args['lane']}\n".encode())
        await reader.readexactly(3)
    finally:
        writer.close()


@pipeline(
    "lanes.limited",
    retry=RETRY,
    lane=lambda args: args["lane"],
    lane_limits=LaneLimits(concurrency=LIMIT, breaker=0),
)
async def limited(task: Task) -> None:
    await call(task)


@pipeline(
    "lanes.paced",
    retry=RETRY,
    lane=lambda args: args["lane"],
    lane_limits=LaneLimits(rate=RATE, breaker=0),
)
async def paced(task: Task) -> None:
    await call(task)
