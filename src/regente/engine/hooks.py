"""What somebody may watch: attempts, steps and calls. Nobody does unless the composition root hands
the runner an observer.

The engine knows no tracing library. Without an observer an attempt and a step pay for one look at
nothing.
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
    """An outgoing call under watch."""

    @property
    def headers(self) -> dict[str, str]:
        """To be sent along, so that the other side can go on with the trace."""
        ...

    def answered(self, status: int) -> None: ...


class Observer(Protocol):
    async def attempt(self, task: Task[Any], work: Awaitable[Outcome | None]) -> Outcome | None:
        """Awaits the work, whatever it raises, and makes itself the observer of all that happens in
        it."""
        ...

    async def step(self, task: Task[Any], name: str, work: Awaitable[T]) -> T: ...

    def call(self, method: str, url: str) -> AbstractContextManager[Call]: ...


current_observer: ContextVar[Observer | None] = ContextVar("regente_observer", default=None)
