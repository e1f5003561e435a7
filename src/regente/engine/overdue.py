"""Takes back tasks that stall or time out, from a thread and a connection of its own: it still runs
while the event loop is blocked, and the renewal of the lease does not wait for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from regente.engine import log
from regente.engine.crashpoints import crash_point
from regente.engine.database import number_array
from regente.engine.outcome import Ended
from regente.engine.queries import query
from regente.engine.task import Task
from regente.engine.task_store import Claim, Settlement, settle_params

WATCH_EVERY_SECONDS = 1.0


@dataclass
class OverdueWatch:
    """Ends the attempts that `overdue` names, until `stop`. `on_given_up` gets each with its
    outcome, or None when the fence refused it. It connects when the first task is overdue."""

    url: str
    connect_arguments: dict[str, Any]
    runner_id: int
    at_least_every_seconds: float
    overdue: Callable[[], Iterable[tuple[Task[Any], Ended]]]
    on_given_up: Callable[[Claim, Ended | None], None]
    lease_is_over: Callable[[], bool]

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._logged: set[tuple[int, int]] = set()
        self._thread = threading.Thread(target=self._watch, name="regente-overdue", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        pause = min(WATCH_EVERY_SECONDS, self.at_least_every_seconds)
        while not self._stop.wait(pause) and not self.lease_is_over():
            seen: set[tuple[int, int]] = set()
            for task, outcome in self.overdue():
                seen.add((task.id, task.attempt))
                try:
                    self._take_back(task, outcome)
                except psycopg.Error as error:
                    log.not_taken_back(task, error)
                    if isinstance(error, psycopg.OperationalError):
                        break
            self._logged &= seen
        self._close()

    def _take_back(self, task: Task[Any], outcome: Ended) -> None:
        claim, connection = task.claim, self._connected()
        if outcome.failure is not None and (task.id, task.attempt) not in self._logged:
            self._logged.add((task.id, task.attempt))
            log.task_overdue(task, outcome.failure)
        with connection.transaction():
            if self._execute("lock_free_tasks", {"ids": number_array([claim.id])}):
                return  # another session has locked the task's row: the next look may find it free
            passed = self._execute("settle", settle_params([Settlement(claim, outcome)]))
        crash_point("stall.settled")
        self.on_given_up(claim, outcome if passed else None)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url, **self.connect_arguments)
        return self._connection

    def _execute(self, name: str, params: dict[str, Any]) -> list[Any]:
        given = {"runner_id": self.runner_id, **params}
        return self._connected().execute(query(name), given).fetchall()

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
