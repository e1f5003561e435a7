"""Which connection the running code holds, so that it never waits for another one of its pool.

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
class Held:
    """A connection that the running code holds, and the one that it held before."""

    by: Literal["transaction", "call"]
    outer: Held | None
    is_open: bool = True
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Client calls inside a pipeline's transaction take turns."""


_held: ContextVar[Held | None] = ContextVar("regente_held_connection", default=None)


def held_connection() -> Held | None:
    """The innermost connection that the running code holds."""
    held = _held.get()
    while held is not None and not held.is_open:  # of a block that ended in another asyncio task
        held = held.outer
    return held


def in_task_transaction() -> bool:
    held = held_connection()
    return held is not None and held.by == "transaction"


@contextlib.contextmanager
def holding(by: Literal["transaction", "call"]) -> Iterator[None]:
    """Within the block, the running code and the asyncio tasks it starts hold a connection."""
    held = Held(by, held_connection())
    _held.set(held)
    try:
        yield
    finally:
        held.is_open = False
        if _held.get() is held:
            _held.set(held.outer)
