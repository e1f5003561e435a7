"""The hooks for tracing: attempts, steps and outgoing calls, as a protocol that the runner's owner
may implement.

The engine imports no tracing library. Without an observer an attempt and a step cost one `None`
check.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from regente.engine.outcome import Outcome
    from regente.engine.task import Task

T = TypeVar("T")


class Call(Protocol):
    """An observed outgoing call."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers to send with the call, so that the receiver continues the trace."""
        ...

    def answered(self, status: int) -> None: ...


class Observer(Protocol):
    async def attempt(self, task: Task[Any], work: Awaitable[Outcome | None]) -> Outcome | None:
        """Await the work and set `current_observer` for everything in it."""
        ...

    async def step(self, task: Task[Any], name: str, work: Awaitable[T]) -> T: ...

    def call(self, method: str, url: str) -> AbstractContextManager[Call]: ...


current_observer: ContextVar[Observer | None] = ContextVar("regente_observer", default=None)
