"""Pipelines for runners that tests start as processes: `regente run --import …/shop.py`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import structlog
from pydantic import BaseModel

from regente import Retry, Task, Transient, pipeline

logger = logging.getLogger("shop")
structured = structlog.get_logger("shop.structured")


class Match(BaseModel):
    match_id: int


@pipeline("quick")
async def quick(task: Task[Any]) -> int:
    return 1


@pipeline("slow")
async def slow(task: Task[Any]) -> None:
    await asyncio.sleep(task.args["seconds"])


@pipeline("stubborn")
async def stubborn(task: Task[Any]) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@pipeline("matches", args=Match, retry=Retry(first=0.0))
async def matches(task: Task[Match]) -> None:
    task.context["match_id"] = task.args.match_id
    task.context["name"] = "a word that logging keeps for itself"
    logger.info("reading match %s", task.args.match_id, extra={"source": "stdlib"})
    structured.info("reading", source="structlog")
    await task.step("PARSE", parse)
    if task.tries == 0:
        raise Transient("no answer", code="HTTP_503")


def parse() -> int:
    logger.warning("odd markup", extra={"source": "thread"})
    return 1
