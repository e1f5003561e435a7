"""Connections that notice when they get no answer although the server does not work on one.

TCP notices a server that is gone. It does not notice a pooler that hangs, or a firewall that forgot
the connection: they take everything, and nothing comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from regente.engine import log
from regente.engine.attempt_tasks import outside_attempts
from regente.engine.queries import query

SILENT_SECONDS = 15.0  # without a byte in either direction, before the server is asked
CONNECT_SECONDS = 10


class WatchedConnection(AsyncConnection[Any]):
    """A connection whose statement fails as lost when its answer never comes. A statement that the
    server still runs, or that waits for a lock, may take as long as it does."""

    _moves = 0  # how often something was sent or came
    _seen_moves = 0
    _timer: asyncio.TimerHandle | None = None
    _check: asyncio.Task[None] | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        if self._timer is None:
            self._look_later()
        return super().wait(self._counted(gen), *args, **options)

    def _counted(self, gen: Any) -> Generator[Any, Any, Any]:
        """Passes the driver's steps on; each is taken when the socket is ready."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    self._moves += 1
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _look_later(self) -> None:
        self._seen_moves = self._moves
        self._timer = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._look)

    def _look(self) -> None:
        """The timer ends when no statement is under way: the next one starts it again."""
        self._timer = None
        if self.closed or self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        if self._moves == self._seen_moves and (self._check is None or self._check.done()):
            self._check = asyncio.create_task(
                self._abort_unless_busy(self._moves), context=outside_attempts()
            )
        self._look_later()

    async def _abort_unless_busy(self, moves: int) -> None:
        if not await self._is_busy() and self._moves == moves:
            log.connection_silent(self.info.backend_pid, SILENT_SECONDS)
            abort(self)

    async def _is_busy(self) -> bool:
        """Asks the server over a new connection. When that is not answered either, nothing is."""
        address = make_conninfo(
            self.info.dsn, password=self.info.password, connect_timeout=CONNECT_SECONDS
        )
        try:
            async with (
                asyncio.timeout(2 * CONNECT_SECONDS),
                await AsyncConnection.connect(address, autocommit=True) as asked,
            ):
                if self.prepare_threshold is None:
                    return True  # a pooler's process ids are not the server's, and it answers
                pid = {"pid": self.info.backend_pid}
                row = await (await asked.execute(query("backend_is_busy"), pid)).fetchone()
                return row is not None and row[0]
        except TimeoutError:
            return False
        except psycopg.Error as error:
            return error.sqlstate is not None  # refused, which is an answer too


def abort(connection: psycopg.Connection[Any] | AsyncConnection[Any]) -> None:
    """End a connection under the code that waits for it, which gets the error of a lost one."""
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as own,
    ):
        own.shutdown(socket.SHUT_RDWR)
