"""Follows a batch to its end, with a progress bar."""

from __future__ import annotations

import asyncio

from regente.app import Regente
from regente.cli import output
from regente.engine.models import BatchInfo

POLL_SECONDS = 0.5
ENDED = frozenset({"completed", "canceled", "failed", "stalled"})


async def follow_batch(app: Regente, batch: int | str, what: str) -> BatchInfo:
    """Wait until the batch has ended or is stalled. An interruption does not stop the batch."""
    found = await app.batch(batch)
    with output.progress(what, found.total) as bar:
        while found.status not in ENDED:
            await asyncio.sleep(POLL_SECONDS)
            found = await app.batch(batch)
            ended = found.completed + found.failed + found.skipped + found.canceled
            bar.update(bar.task_ids[0], completed=ended, total=found.total)
    return found
