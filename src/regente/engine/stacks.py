"""Where a coroutine or a thread stands right now, as text for people."""

from __future__ import annotations

import asyncio
import io
import sys
import traceback
from typing import Any


def stack_of_task(running: asyncio.Task[Any], thread_id: int | None) -> str:
    """The awaits of the coroutine, outermost first, and the thread in which its synchronous step runs."""
    lines = ["coroutine:\n", *_coroutine_lines(running.get_coro())]
    frame = sys._current_frames().get(thread_id) if thread_id else None
    if frame is not None:
        lines += ["thread of its synchronous step:\n", *traceback.format_stack(frame, limit=30)]
    return "".join(lines)


def _coroutine_lines(awaited: Any) -> list[str]:
    lines: list[str] = []
    for _ in range(50):
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        lines += traceback.format_stack(frame, limit=1)
        inner = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        if isinstance(inner, asyncio.Task):
            inner = inner.get_coro()
        awaited = inner
    return lines or ["  (not in Python code)\n"]


def stack_of_main_thread(thread_id: int) -> str:
    frame = sys._current_frames().get(thread_id)
    text = io.StringIO()
    traceback.print_stack(frame, limit=30, file=text)
    return text.getvalue()
