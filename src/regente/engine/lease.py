"""Renews the runner's lease from a thread and a connection of its own, so that neither a blocked
event loop nor an exhausted pool loses it.

The same thread takes back tasks that stall or time out, because it still runs while the event loop
is blocked.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from regente.engine import log
from regente.engine.crashpoints import crash_point
from regente.engine.outcome import Ended
from regente.engine.queries import query
from regente.engine.task import Task
from regente.engine.task_store import Claim, Settlement, settle_params

WATCH_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    ttl_seconds: float = 60.0
    renew_every_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.renew_every_seconds < self.ttl_seconds:
            raise ValueError(
                f"the heartbeat ({self.renew_every_seconds} s) must be shorter than the "
                f"lease ({self.ttl_seconds} s)"
            )


@dataclass
class LeaseRenewer:
    """Renews the lease until `stop`. Calls `on_lost` once, from any thread, when other runners may
    take the tasks over."""

    url: str
    connect_arguments: dict[str, Any]
    runner_id: int
    config: LeaseConfig
    counters: Callable[[], dict[str, Any]]
    overdue: Callable[[], Iterable[tuple[Task[Any], Ended]]]
    on_given_up: Callable[[Claim, Ended | None], None]
    on_lost: Callable[[str], None]
    revive: Callable[[], None]

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lost = False
        self._verdict = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._renewed_at = time.monotonic()
        self._thread = threading.Thread(target=self._keep, name="regente-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=15)

    def _keep(self) -> None:
        next_renewal = time.monotonic() + self.config.renew_every_seconds
        pause = min(WATCH_EVERY_SECONDS, self.config.renew_every_seconds / 2)
        while not self._stop.wait(pause) and not self.is_over():
            with contextlib.suppress(psycopg.Error):
                self._give_up_overdue()
            if time.monotonic() >= next_renewal:
                next_renewal = time.monotonic() + (
                    self.config.renew_every_seconds
                    if self._renew()
                    else min(1.0, self.config.renew_every_seconds / 4)
                )
        self._close()

    def is_over(self) -> bool:
        """True when other runners may have taken over. The event loop asks too: this thread may
        hang in a statement, and a process that was frozen must know before it acts. Once over, the
        lease stays over."""
        if not self._lost and time.monotonic() - self._renewed_at > self.config.ttl_seconds:
            self._declare_lost("it could not be renewed in time")
        return self._lost

    def _renew(self) -> bool:
        sent_at = time.monotonic()
        try:
            renewed = self._execute(
                "renew_lease", {"ttl_seconds": self.config.ttl_seconds, **self.counters()}
            )
        except psycopg.Error as error:
            log.database_away("renewing the lease", error)
            self._close()
            self.revive()
            return False
        if not renewed:
            self._declare_lost("another runner declared this one lost")
            return False
        crash_point("lease.renewed")
        with self._verdict:
            if not self._lost:
                self._renewed_at = sent_at
        return True

    def _give_up_overdue(self) -> None:
        for task, outcome in self.overdue():
            claim = task.claim
            if outcome.failure is not None:
                log.task_overdue(task, outcome.failure)
            passed = self._execute("settle", settle_params([Settlement(claim, outcome)]))
            crash_point("stall.settled")
            self.on_given_up(claim, outcome if passed else None)

    def _declare_lost(self, reason: str) -> None:
        with self._verdict:
            first, self._lost = not self._lost, True
        if first:
            log.lease_lost(self.runner_id, reason)
            self.on_lost(reason)

    def _execute(self, name: str, params: dict[str, Any]) -> list[Any]:
        if self._connection is None or self._connection.closed:
            # A server that does not answer must not block the thread for longer than the lease.
            limit = max(2, int(self.config.ttl_seconds / 4))
            arguments = {
                **self.connect_arguments,
                "connect_timeout": limit,
                "tcp_user_timeout": limit * 1000,
            }
            self._connection = psycopg.connect(self.url, **arguments)
        cursor = self._connection.execute(query(name), {"runner_id": self.runner_id, **params})
        return cursor.fetchall()

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
