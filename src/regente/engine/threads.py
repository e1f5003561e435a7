"""Runs a synchronous step in a thread of its own, so that it does not block the event loop and can
be cancelled.

A thread cannot be killed. `StepCanceled` is raised in a cancelled step at its next Python
instruction. A step in C code is left behind, and its result is dropped.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class StepCanceled(BaseException):
    """Raised inside the thread of a synchronous step whose task was canceled or taken over."""


async def run_in_thread(
    function: Callable[..., Any], *args: Any, on_start: Callable[[int], None], **kwargs: Any
) -> Any:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def body() -> None:
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:
            _report(loop, finished, None, error)
        else:
            _report(loop, finished, result, None)

    thread = threading.Thread(
        target=body, name=f"step-{getattr(function, '__name__', 'call')}", daemon=True
    )
    thread.start()
    on_start(thread.ident or 0)
    try:
        return await asyncio.shield(finished)
    except asyncio.CancelledError:
        _interrupt(thread)
        raise


def _report(
    loop: asyncio.AbstractEventLoop,
    finished: asyncio.Future[Any],
    result: Any,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if finished.done() or isinstance(error, StepCanceled):
            return
        if error is None:
            finished.set_result(result)
        elif isinstance(error, StopIteration):  # a future refuses to carry it
            finished.set_exception(RuntimeError("the step raised StopIteration"))
        else:
            finished.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed, and with it the waiting task


def _interrupt(thread: threading.Thread) -> None:
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(StepCanceled)
        )
