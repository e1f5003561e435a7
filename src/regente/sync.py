"""A blocking client, for Django, Flask, scripts and notebooks.

Its methods are those of the asynchronous client, which runs in an event loop of its own, in a
thread of its own; any thread may call them.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from typing_extensions import Unpack

from regente import app as asynchronous
from regente.engine.client import Client
from regente.engine.errors import InvalidInput
from regente.engine.lane_operations import LaneOperations
from regente.engine.pipeline import Registry, registry
from regente.engine.task_selection import TaskFilter, TaskSelection
from regente.settings import Settings

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class _Loop:
    """An event loop in a thread, with an open client."""

    def __init__(self, client: asynchronous.Regente) -> None:
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._stop = asyncio.Event()
        self._client = client
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="regente", daemon=True
        )
        self.pid = os.getpid()
        self._thread.start()
        try:
            self._loop = self._ready.result()
        except BaseException:
            self._thread.join()
            raise

    async def _serve(self) -> None:
        try:
            await self._client.__aenter__()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        try:
            self._ready.set_result(asyncio.get_running_loop())
            await self._stop.wait()
        finally:
            await self._client.__aexit__(None, None, None)

    def run(self, work: Callable[[asynchronous.Regente], Coroutine[Any, Any, ResultT]]) -> ResultT:
        if threading.current_thread() is self._thread:
            raise InvalidInput("a call from the client's own thread would wait for itself")
        future = asyncio.run_coroutine_threadsafe(work(self._client), self._loop)
        try:
            return future.result()
        except BaseException:  # the caller was interrupted, or the call has failed
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Regente, P], ResultT]:
    """The method of the asynchronous client, with its parameters, as one that waits."""

    @functools.wraps(method)
    def call(self: Regente, /, *args: P.args, **options: P.kwargs) -> ResultT:
        if options.get("connection") is not None:
            raise InvalidInput(
                "a blocking client has connections of its own; in your transaction "
                "execute regente.enqueue(…) in SQL"
            )
        return self._opened().run(lambda client: method(client, *args, **options))

    return call


def _blocking_lanes(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Lanes, P], ResultT]:
    @functools.wraps(method)
    def call(self: Lanes, /, *args: P.args, **options: P.kwargs) -> ResultT:
        return self.client._opened().run(lambda client: method(client.lanes, *args, **options))

    return call


class Lanes:
    """The lanes of all pipelines: their limits, and what waits in them."""

    def __init__(self, client: Regente) -> None:
        self.client = client

    list = _blocking_lanes(LaneOperations.list)
    show = _blocking_lanes(LaneOperations.show)
    set = _blocking_lanes(LaneOperations.set)
    park = _blocking_lanes(LaneOperations.park)
    open = _blocking_lanes(LaneOperations.open)


def _blocking_selection(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Selection, P], ResultT]:
    @functools.wraps(method)
    def call(self: Selection, /, *args: P.args, **options: P.kwargs) -> ResultT:
        return self.client._opened().run(
            lambda client: method(client.select_tasks(**self.chosen), *args, **options)
        )

    return call


class Selection:
    """The tasks that match all given conditions, as they are when an action comes to them."""

    def __init__(self, client: Regente, chosen: TaskFilter) -> None:
        self.client = client
        self.chosen = chosen

    preview = _blocking_selection(TaskSelection.preview)
    cancel = _blocking_selection(TaskSelection.cancel)
    retry = _blocking_selection(TaskSelection.retry)
    discard = _blocking_selection(TaskSelection.discard)
    change = _blocking_selection(TaskSelection.change)


class Regente:
    """A client whose methods wait for their results.

        app = Regente(url)
        task_id = app.enqueue("prices", {"product": "chair"})

    It connects at the first call, and ends with the program, with `close()`, or at the end of a
    `with`. A process that was forked from one that used it connects anew.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        pipelines: Registry = registry,
        components: Collection[str] = (),
    ) -> None:
        self._new_client = functools.partial(
            asynchronous.Regente,
            database_url,
            settings=settings,
            pipelines=pipelines,
            components=components,
        )
        self._loop: _Loop | None = None
        self._of_other_processes: list[_Loop] = []  # kept: their connections are the parent's
        self._opening = threading.Lock()
        _clients.add(self)

    def __enter__(self) -> Self:
        self._opened()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End its connections. A later call opens it again."""
        with self._opening:
            atexit.unregister(self.close)
            loop, self._loop = self._loop, None
            if loop is not None and loop.pid == os.getpid():
                loop.close()

    def _opened(self) -> _Loop:
        with self._opening:
            if self._loop is not None and self._loop.pid != os.getpid():
                self._of_other_processes.append(self._loop)
                self._loop = None
            if self._loop is None:
                self._loop = _Loop(self._new_client())
                atexit.register(self.close)
            return self._loop

    @property
    def lanes(self) -> Lanes:
        return Lanes(self)

    def select_tasks(self, **chosen: Unpack[TaskFilter]) -> Selection:
        """The tasks that match `pipeline`, `statuses`, `batch_id` and `code`, or `everything`: to
        preview, cancel, retry, discard or change them all."""
        return Selection(self, chosen)

    enqueue = _blocking(Client.enqueue)
    enqueue_many = _blocking(Client.enqueue_many)
    queue = _blocking(Client.queue)
    release = _blocking(Client.release)

    get = _blocking(Client.get)
    wait = _blocking(Client.wait)
    tasks = _blocking(Client.tasks)
    counts = _blocking(Client.counts)
    why = _blocking(Client.why)
    steps = _blocking(Client.steps)
    task_events = _blocking(Client.task_events)
    attempts = _blocking(Client.attempts)
    failures = _blocking(Client.failures)
    snapshot = _blocking(Client.snapshot)
    runners = _blocking(Client.runners)
    runner = _blocking(Client.runner)
    feed = _blocking(Client.feed)

    cancel = _blocking(Client.cancel)
    cancel_many = _blocking(Client.cancel_many)
    change = _blocking(Client.change)
    change_many = _blocking(Client.change_many)
    retry = _blocking(Client.retry)
    retry_many = _blocking(Client.retry_many)
    decisions = _blocking(Client.decisions)
    resolve = _blocking(Client.resolve)
    signal = _blocking(Client.signal)
    waiting = _blocking(Client.waiting)
    discard = _blocking(Client.discard)
    recover_stuck = _blocking(Client.recover_stuck)
    give_up_old = _blocking(Client.give_up_old)

    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    pipelines = _blocking(Client.pipelines)

    open_batch = _blocking(Client.open_batch)
    batches = _blocking(Client.batches)
    find_batches = _blocking(Client.find_batches)
    children = _blocking(Client.children)
    batch = _blocking(Client.batch)
    resume_batch = _blocking(Client.resume_batch)
    reprocess_batch = _blocking(Client.reprocess_batch)
    cancel_batch = _blocking(Client.cancel_batch)

    schedule = _blocking(Client.schedule)
    unschedule = _blocking(Client.unschedule)
    schedules = _blocking(Client.schedules)
    pause_schedule = _blocking(Client.pause_schedule)
    resume_schedule = _blocking(Client.resume_schedule)
    schedule_runs = _blocking(Client.schedule_runs)
    next_runs = _blocking(Client.next_runs)


_clients: weakref.WeakSet[Regente] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a forked child, where the thread that held one does not run."""
    for client in _clients:
        client._opening = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)
