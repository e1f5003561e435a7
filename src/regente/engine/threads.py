"""Runs a synchronous step in a thread of its own, so that it does not block the event loop and can
be cancelled; and records the threads that attempts start with `asyncio.to_thread`.

A thread cannot be killed. `StepCanceled` is raised in it at its next Python instruction. The end of
its attempt waits for one in C code (`attempt_tasks.py`), and its result is dropped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from regente.engine.log import current_task

MADE_BY_ASYNCIO = "asyncio"  # the names of its threads begin with it


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
        if thread.is_alive():
            _interrupt(thread.ident)
        attempt = current_task.get()
        if attempt is not None:
            attempt.starts().add_thread(finished, lambda: None)
        raise


def _report(
    loop: asyncio.AbstractEventLoop,
    finished: asyncio.Future[Any],
    result: Any,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if finished.done():
            return
        if isinstance(error, StepCanceled):
            finished.cancel()
        elif error is None:
            finished.set_result(result)
        elif isinstance(error, StopIteration):  # a future refuses to carry it
            finished.set_exception(RuntimeError("the step raised StopIteration"))
        else:
            finished.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed, and with it the waiting task


def _interrupt(thread_id: int | None) -> None:
    if thread_id is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread_id), ctypes.py_object(StepCanceled)
        )


def _take_back_interrupt(thread_id: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), None)


class AttemptThreads(ThreadPoolExecutor):
    """A loop's default executor, the threads of `asyncio.to_thread`. It records each call with the
    attempt in whose context it is made."""

    @classmethod
    def serve(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Take the place of the executor that asyncio makes by itself, not of one that the program
        has set."""
        there = getattr(loop, "_default_executor", None)
        if there is None:
            loop.set_default_executor(cls(thread_name_prefix=MADE_BY_ASYNCIO))
        elif type(there) is ThreadPoolExecutor and there._thread_name_prefix == MADE_BY_ASYNCIO:
            loop.set_default_executor(cls(thread_name_prefix=MADE_BY_ASYNCIO))
            there.shutdown(wait=False)

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        attempt = current_task.get()
        if attempt is None:
            return super().submit(function, *args, **kwargs)
        call = _InterruptibleCall(partial(function, *args, **kwargs))
        made = super().submit(call.run)
        attempt.starts().add_thread(_end_of(made), call.interrupt)
        return made


class _InterruptibleCall:
    """A call in a thread of a pool, which later calls will use."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._thread_id: int | None = None
        self._turn = threading.Lock()

    def run(self) -> Any:
        self._thread_id = thread_id = threading.get_ident()
        try:
            return self._call()
        finally:
            with self._turn:
                self._thread_id = None
                _take_back_interrupt(thread_id)  # one that came too late

    def interrupt(self) -> None:
        with self._turn:
            _interrupt(self._thread_id)


def _end_of(made: concurrent.futures.Future[Any]) -> asyncio.Future[None]:
    """Done when the call has really ended: a cancellation ends only the wait for it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: concurrent.futures.Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the attempt
            loop.call_soon_threadsafe(ended.set_result, None)

    made.add_done_callback(tell)
    return ended
