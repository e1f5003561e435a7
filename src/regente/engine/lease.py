"""Renews the runner's lease from a thread and a connection of its own, so that neither a blocked
event loop nor an exhausted pool loses it. It does nothing else: no lock on a task delays it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from regente.engine import log
from regente.engine.crashpoints import crash_point
from regente.engine.database import FOREVER
from regente.engine.queries import query
from regente.engine.silence import abort

LOOK_EVERY_SECONDS = 1.0
MARGIN_SECONDS = 1.0  # at most


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

    @property
    def usable_seconds(self) -> float:
        """How long after a renewal the runner may work. The margin is for stopping its tasks: they
        have stopped before another runner can start them."""
        margin = (self.ttl_seconds - self.renew_every_seconds) / 10
        return self.ttl_seconds - min(MARGIN_SECONDS, margin)


@dataclass
class LeaseRenewer:
    """Renews the lease until `stop`. Calls `on_lost` once, from any thread, when other runners may
    take the tasks over."""

    url: str
    connect_arguments: dict[str, Any]
    runner_id: int
    config: LeaseConfig
    timeline: str
    counters: Callable[[], dict[str, Any]]
    on_lost: Callable[[str], None]
    revive: Callable[[], None]

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lost = False
        self._verdict = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._renewed_at = time.monotonic()
        self._asked_at = FOREVER  # when the statement was sent that is under way
        self._answer_seconds = self.config.ttl_seconds / 4
        self._thread = threading.Thread(target=self._keep, name="regente-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=15)

    def _keep(self) -> None:
        next_renewal = time.monotonic() + self.config.renew_every_seconds
        pause = min(LOOK_EVERY_SECONDS, self.config.renew_every_seconds / 2)
        while not self._stop.wait(pause) and not self.is_over():
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
        if not self._lost and self.left_seconds() <= 0:
            self._declare_lost("it could not be renewed in time")
        return self._lost

    def left_seconds(self) -> float:
        """How long the runner may work when no further renewal succeeds."""
        return self._renewed_at + self.config.usable_seconds - time.monotonic()

    def _renew(self) -> bool:
        sent_at = time.monotonic()
        try:
            renewed = self._execute(
                "renew_lease", {"ttl_seconds": self.config.ttl_seconds, **self.counters()}
            )
        except psycopg.errors.LockNotAvailable:
            self._log_lock()
            return False
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

    def _log_lock(self) -> None:
        with contextlib.suppress(psycopg.Error):
            holders = self._execute("runner_lock_holders", {})
            log.runner_locked(self.runner_id, [holder for (holder,) in holders])

    def _declare_lost(self, reason: str) -> None:
        with self._verdict:
            first, self._lost = not self._lost, True
        if first:
            log.lease_lost(self.runner_id, reason)
            self.on_lost(reason)

    def _execute(self, name: str, params: dict[str, Any]) -> list[Any]:
        if self._connection is None or self._connection.closed:
            # A server that does not answer must not block the thread for longer than the lease.
            limit = max(2, int(self._answer_seconds))
            arguments = {
                **self.connect_arguments,
                "connect_timeout": limit,
                "tcp_user_timeout": limit * 1000,
            }
            self._connection = psycopg.connect(self.url, **arguments)
            [(timeline,)] = self._connection.execute(query("enter_timeline")).fetchall()
            if timeline != self.timeline:
                self._declare_lost("the database failed over or was restored")
                return []
        self._asked_at = time.monotonic()
        try:
            cursor = self._connection.execute(query(name), {"runner_id": self.runner_id, **params})
            return cursor.fetchall()
        finally:
            self._asked_at = FOREVER

    def abort_if_silent(self) -> None:
        """Called by the event loop: this thread waits for an answer that does not come."""
        connection = self._connection
        silent_seconds = time.monotonic() - self._asked_at
        if connection is not None and silent_seconds > self._answer_seconds:
            log.connection_silent(connection.info.backend_pid, silent_seconds)
            abort(connection)

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
