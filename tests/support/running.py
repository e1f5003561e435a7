"""A runner inside the test's process, which ends with the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from regente import Regente


@contextlib.asynccontextmanager
async def runner_in(app: Regente) -> AsyncIterator[None]:
    running = asyncio.create_task(app.run())
    try:
        yield
    finally:
        app.stop_running()
        await running
