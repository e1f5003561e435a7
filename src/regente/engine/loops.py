"""How the items of `task.each` run side by side, and what an error does to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from regente.engine.errors import ControlFlow

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, None]]


async def all_or_first_error(work: Work, count: int) -> None:
    """Do the work `count` times side by side; on the first error cancel the others and raise it."""
    running = [asyncio.ensure_future(work()) for _ in range(count)]
    try:
        await asyncio.gather(*running)
    except BaseException:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise


async def each_to_its_end(work: Work, count: int, missing: Iterator[int]) -> None:
    """As `all_or_first_error`, but items that were started are finished after an error, and no
    further one is started."""
    running = (or_stop(work, missing) for _ in range(count))
    ended = await asyncio.gather(*running, return_exceptions=True)
    errors = [error for error in ended if isinstance(error, BaseException)]
    for error in sorted(errors, key=lambda error: not isinstance(error, ControlFlow)):
        raise error


async def or_stop(work: Callable[[], Awaitable[T]], missing: Iterator[int]) -> T:
    """The result; an error uses up the items that are left."""
    try:
        return await work()
    except BaseException:
        for _ in missing:
            pass
        raise
