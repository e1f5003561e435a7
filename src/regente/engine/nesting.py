"""Tracks the connection that the running code uses, so that it never waits for another one of its
pool.

Each pool waits only for pools below it, so that no circle of waiting calls can form:

    regente-tasks    the transactions of pipelines; inside one, the code may wait for
    regente-beside   its client calls, one at a time: there are as many connections as in
                     regente-tasks, so each transaction can have one
    regente-runner   the statements of the runner, which wait for no other pool

    regente-client   client calls outside of such transactions; inside one of them, a second one
                     is refused
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True, eq=False)
class CurrentConnection:
    """A connection that the running code uses, and the one in use around it."""

    by: Literal["transaction", "call"]
    outer: CurrentConnection | None
    is_open: bool = True
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Client calls inside a pipeline's transaction take turns."""


_current: ContextVar[CurrentConnection | None] = ContextVar(
    "regente_current_connection", default=None
)


def current_connection() -> CurrentConnection | None:
    """The innermost connection that the running code uses."""
    current = _current.get()
    while current is not None and not current.is_open:  # its block ended in another asyncio task
        current = current.outer
    return current


def in_task_transaction() -> bool:
    current = current_connection()
    return current is not None and current.by == "transaction"


@contextlib.contextmanager
def using_connection(by: Literal["transaction", "call"]) -> Iterator[None]:
    """Within the block, the running code and the asyncio tasks it starts hold a connection."""
    current = CurrentConnection(by, current_connection())
    _current.set(current)
    try:
        yield
    finally:
        current.is_open = False
        if _current.get() is current:
            _current.set(current.outer)
