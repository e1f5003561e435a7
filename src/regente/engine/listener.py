"""Receives NOTIFY: hints that tasks are due or to be canceled. Without LISTEN the runner polls more
often, and everything still works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection

from regente.engine import log
from regente.engine.cancellation import cancel_all
from regente.engine.database import Database
from regente.engine.queries import query
from regente.engine.silence import WatchedConnection

CHECK_SECONDS = 60.0  # after this time without a notification the connection is tried out
QUEUED, CANCEL, LANES = "regente_queued", "regente_cancel", "regente_lanes"
LANED = "regente_laned"


class Listener:
    """Calls `hear` with the channel and the payload of each notification. `listening` is true while
    the connection is up."""

    def __init__(self, database: Database, hear: Callable[[str, str], None]) -> None:
        self._database = database
        self._hear = hear
        self._task: asyncio.Task[None] | None = None
        self.listening = False

    def start(self) -> None:
        if not self._database.through_pooler:
            self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        if self._task is not None:
            await cancel_all([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                log.database_away("listening", error)
            finally:
                self.listening = False
            await asyncio.sleep(1.0)

    async def _listen(self) -> None:
        arguments = self._database.connect_arguments()
        async with await WatchedConnection.connect(self._database.url, **arguments) as connection:
            await connection.execute(query("listen_queued"))
            await connection.execute(query("listen_cancel"))
            await connection.execute(query("listen_lanes"))
            await connection.execute(query("listen_laned"))
            self.listening = True
            self._hear(QUEUED, "")  # for the hints from before LISTEN
            await self._hear_until_lost(connection)

    async def _hear_until_lost(self, connection: AsyncConnection[Any]) -> None:
        connection.add_notify_handler(lambda notice: self._hear(notice.channel, notice.payload))
        while True:
            await self._hear_for_a_while(connection)
            await connection.execute(query("backend_pid"))

    async def _hear_for_a_while(self, connection: AsyncConnection[Any]) -> None:
        """Read notifications in a callback of the event loop: with `notifies()` the waiting claim
        would run one turn of the loop later."""
        loop = asyncio.get_running_loop()
        socket, lost = connection.fileno(), loop.create_future()

        def read() -> None:
            try:
                connection.pgconn.consume_input()
                while notice := connection.pgconn.notifies():
                    self._hear(notice.relname.decode(), notice.extra.decode())
            except psycopg.Error as error:
                loop.remove_reader(socket)
                lost.set_exception(error)

        loop.add_reader(socket, read)
        try:
            await asyncio.wait([lost], timeout=CHECK_SECONDS)
        finally:
            loop.remove_reader(socket)
        if lost.done():
            lost.result()
