"""Finds what an attempt started beside itself, so that its end leaves nothing running.

A runner's event loop makes its tasks through `AttemptTasks`, which tells the attempt in whose
context a task is made, and the threads of `asyncio.to_thread` through `AttemptThreads`. What
outlives an attempt on purpose, because others share it, is started in the context
`outside_attempts()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextvars import Context, copy_context
from typing import Any, cast

from regente.engine.cancellation import CANCEL_EVERY_SECONDS
from regente.engine.log import current_task
from regente.engine.threads import AttemptThreads

MANY = 64

TaskFactory = Callable[..., asyncio.Future[Any]]


class StartedWork:
    """What one attempt started: asyncio tasks, and threads."""

    __slots__ = ("_look_at", "_tasks", "_threads", "is_closed")

    def __init__(self) -> None:
        self._tasks: list[asyncio.Future[Any]] = []
        self._threads: dict[asyncio.Future[Any], Callable[[], None]] = {}
        self._look_at = MANY
        self.is_closed = False

    def add_task(self, task: asyncio.Future[Any]) -> None:
        # After the end, only callbacks of shared connections come with the attempt's context.
        if self.is_closed or task.done():
            return
        self._tasks.append(task)
        if len(self._tasks) > self._look_at:  # cheaper than a callback at the end of each
            self._tasks = _unfinished(self._tasks)
            self._look_at = max(MANY, 2 * len(self._tasks))

    def add_thread(self, ended: asyncio.Future[Any], interrupt: Callable[[], None]) -> None:
        self._threads[ended] = interrupt
        ended.add_done_callback(lambda _: self._threads.pop(ended, None))

    def cancel(self) -> None:
        for task in _unfinished(self._tasks):
            task.cancel()

    async def end(
        self,
        grace_seconds: float,
        is_lost: Callable[[], bool],
        on_late: Callable[[list[str]], None],
    ) -> list[str]:
        """Cancel the tasks, interrupt the threads, and wait; the names of what still runs then.

        A task that ignores its cancellation is left behind after the grace. A thread in C code
        cannot be ended and may be making a call: until it is over, or the attempt `is_lost`, no
        other attempt may begin. A cancellation of the caller does not end the wait: the attempt is
        ending already.
        """
        for interrupt in list(self._threads.values()):
            interrupt()
        late_at = time.monotonic() + grace_seconds
        is_late = False
        while left := _unfinished([*([] if is_late else self._tasks), *self._threads]):
            if is_late and is_lost():
                break
            self.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                ended, _ = await asyncio.wait(left, timeout=CANCEL_EVERY_SECONDS)
                for one in ended:
                    if not one.cancelled():
                        one.exception()  # dropped: the attempt has its outcome
            if not is_late and time.monotonic() > late_at:
                is_late = True
                if late := self._names():
                    on_late(late)
        self.is_closed = True
        return self._names()

    def _names(self) -> list[str]:
        return [_name_of(one) for one in _unfinished([*self._tasks, *self._threads])]


class AttemptTasks:
    """The task factory of a loop with runners; it makes tasks by the one that was there before."""

    def __init__(self, before: TaskFactory | None) -> None:
        self.before = before
        self.users = 0

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Future[Any]:
        if self.before is None:
            made: asyncio.Future[Any] = asyncio.Task(work, loop=loop, **options)
        else:
            made = self.before(loop, work, **options)
        context: Context | None = options.get("context")
        attempt = current_task.get() if context is None else context.get(current_task)
        if attempt is not None:
            attempt.starts().add_task(made)
        return made


@contextlib.contextmanager
def tasks_of_attempts(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Within the block the loop's tasks are known to the attempts that make them."""
    there: Any = loop.get_task_factory()
    ours = there if isinstance(there, AttemptTasks) else AttemptTasks(there)
    loop.set_task_factory(cast(Any, ours))
    ours.users += 1
    AttemptThreads.serve(loop)
    try:
        yield
    finally:
        ours.users -= 1
        if not ours.users and cast(Any, loop.get_task_factory()) is ours:
            loop.set_task_factory(cast(Any, ours.before))


def outside_attempts() -> Context:
    """A copy of the current context that belongs to no attempt."""
    context = copy_context()
    context.run(current_task.set, None)
    return context


def _unfinished(work: Iterable[asyncio.Future[Any]]) -> list[asyncio.Future[Any]]:
    return [one for one in work if not one.done()]


def _name_of(work: asyncio.Future[Any]) -> str:
    if not isinstance(work, asyncio.Task):
        return "a thread"
    return f"{work.get_name()} ({getattr(work.get_coro(), '__qualname__', '')})"
