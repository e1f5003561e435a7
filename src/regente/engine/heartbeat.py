"""A heartbeat from inside a step: in a coroutine, in a thread, or in the child process of an
isolated step."""

from __future__ import annotations

import time
from collections.abc import Callable

from regente.engine.log import current_task

CHILD_EVERY_SECONDS = 1.0


class ChildBeats:
    """The heartbeats of an isolated step's process: `send` tells the parent, at most once a
    second."""

    send: Callable[[], None] | None = None
    sent_at = 0.0


def heartbeat() -> None:
    """Show that the task is alive, from anywhere in its pipeline or steps; elsewhere it does
    nothing. Cheap: a thread may call it in every turn of a loop."""
    task = current_task.get()
    if task is not None:
        task.beat()
    elif ChildBeats.send is not None:
        now = time.monotonic()
        if now - ChildBeats.sent_at >= CHILD_EVERY_SECONDS:
            ChildBeats.sent_at = now
            ChildBeats.send()
