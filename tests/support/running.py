"""A runner inside the test's own process, ended with the test whatever becomes of it."""

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
