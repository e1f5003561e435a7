"""A pipeline for runners that are killed: a run that takes a moment."""

from __future__ import annotations

import asyncio
from typing import Any

from regente import Task, pipeline


@pipeline("scheduled.work")
async def work(task: Task[dict[str, Any]]) -> None:
    await asyncio.sleep(task.args["seconds"])
