"""The current stack of a coroutine or thread, as text. Called from the thread of `overdue.py`; it
changes nothing."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any

MAX_AWAITS = 50
MAX_CHILDREN = 5


def stack_of_task(running: asyncio.Task[Any], thread_id: int | None, loop_thread_id: int) -> str:
    """The coroutine's awaits, outermost first; the tasks that it waits for; the thread of its
    synchronous step."""
    coroutine = running.get_coro()
    lines = ["coroutine:\n", *_task_lines(running, MAX_CHILDREN)]
    if getattr(coroutine, "cr_running", False):  # it awaits nothing: it blocks the event loop
        lines += ["blocking the event loop in:\n", *_thread_lines(loop_thread_id)]
    if thread_id is not None:
        lines += ["thread of its synchronous step:\n", *_thread_lines(thread_id)]
    return "".join(lines)


def _task_lines(task: asyncio.Task[Any], children: int) -> list[str]:
    lines, frames = _coroutine_lines(task.get_coro())
    for child in _awaited_by(task, frames)[:children]:
        lines += ["waiting for:\n", *_task_lines(child, 1)]
    return lines or ["  (not in Python code)\n"]


def _coroutine_lines(awaited: Any) -> tuple[list[str], list[Any]]:
    lines: list[str] = []
    frames: list[Any] = []
    while len(frames) < MAX_AWAITS:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        frames.append(frame)
        lines += traceback.format_stack(frame, limit=1)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return lines, frames


def _awaited_by(task: asyncio.Task[Any], frames: list[Any]) -> list[asyncio.Task[Any]]:
    """The tasks behind an `await task`, a `gather` or a `TaskGroup`, from asyncio's private
    attributes: it has no function for this before 3.14."""
    waiter = getattr(task, "_fut_waiter", None)
    found = [waiter, *getattr(waiter, "_children", ())]
    for frame in frames[-1:]:
        group = frame.f_locals.get("self")
        found += getattr(group, "_tasks", ()) if isinstance(group, asyncio.TaskGroup) else ()
    return [one for one in found if isinstance(one, asyncio.Task) and not one.done()]


def _thread_lines(thread_id: int) -> list[str]:
    frame = sys._current_frames().get(thread_id)
    return traceback.format_stack(frame, limit=30) if frame is not None else ["  (ended)\n"]
