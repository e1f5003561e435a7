"""Calls the function of a step: in the event loop, in a thread or in a child process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from regente.engine.calls import StepCall
from regente.engine.database import TaskConnection
from regente.engine.errors import InvalidInput, Transient
from regente.engine.isolation import run_isolated
from regente.engine.threads import run_in_thread


class Limits(NamedTuple):
    """Where a step runs, and its limits on time and memory."""

    isolated: bool = False
    timeout_seconds: float | None = None
    memory_mb: int | None = None


async def run_step(
    call: StepCall,
    limits: Limits,
    on_thread: Callable[[int | None], None],
    on_beat: Callable[[], None],
) -> Any:
    """The function's result. `on_thread` is told the thread in which it runs, and None when that
    is over; `on_beat`, that an isolated step shows progress."""
    if limits.isolated:
        return await run_isolated(
            call.function,
            tuple(call.args),
            dict(call.kwargs),
            timeout_seconds=limits.timeout_seconds,
            memory_mb=limits.memory_mb,
            on_start=lambda _: None,
            on_beat=on_beat,
        )
    called = _called(call, on_thread)
    if limits.timeout_seconds is None:
        return await called
    try:
        async with asyncio.timeout(limits.timeout_seconds):
            return await called
    except TimeoutError as error:
        raise Transient(
            f"the step took longer than {limits.timeout_seconds} s", code="STEP_TIMEOUT"
        ) from error


async def run_with_connection(call: StepCall, connection: TaskConnection) -> Any:
    """The result of an async function that gets the connection of a transaction."""
    try:
        called = call.function(connection, *call.args, **call.kwargs)
        if not inspect.isawaitable(called):
            raise InvalidInput(f"transact calls async functions, and {call.function!r} is not")
        return await called
    except SystemExit as error:  # asyncio would end the event loop with it
        raise _exited(error) from error


async def _called(call: StepCall, on_thread: Callable[[int | None], None]) -> Any:
    try:
        if _is_async(call.function):
            awaitable: Awaitable[Any] = call.function(*call.args, **call.kwargs)
            return await awaitable
        result = await run_in_thread(call.function, *call.args, on_start=on_thread, **call.kwargs)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:  # asyncio would end the event loop with it
        raise _exited(error) from error
    finally:
        on_thread(None)


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _exited(error: SystemExit) -> Transient:
    return Transient(f"the step called sys.exit({error.code!r})", code="SystemExit")
