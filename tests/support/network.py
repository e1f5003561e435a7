"""A network before a server that can be cut and healed, and can forget connections.

As in a real network, what is under way when it is cut is not lost: it arrives when it heals.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

BLOCK_BYTES = 65_536


class Direction(Enum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


BOTH = (Direction.TO_SERVER, Direction.TO_CLIENT)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """One direction of the network, or of one connection through it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    async def passable(self) -> None:
        await self._open.wait()


class Network:
    """A TCP proxy on `port`, before the server at that host, or the socket at that path. Its
    methods may be called from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._links = {direction: Link() for direction in Direction}
        self._connections: set[Connection] = set()
        self._thread.start()
        self._listener = self._wait_for(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._listener.sockets[0].getsockname()[1]

    def cut(self, *directions: Direction) -> None:
        """Nothing passes any more in these directions; new connections are not answered."""
        for direction in directions:
            self._call(self._links[direction].close)

    def heal(self) -> None:
        """What was under way arrives."""
        for link in self._links.values():
            self._call(link.open)

    def forget_connections(self) -> None:
        """Present connections stay open and carry nothing any more; new ones are fine: a firewall
        that lost its state, a pooler that hangs."""
        for connection in [*self._connections]:
            self._call(connection.forget)

    def close(self) -> None:
        async def end() -> None:
            self._listener.close()
            for connection in [*self._connections]:
                connection.task.cancel()
            await asyncio.gather(*(one.task for one in self._connections), return_exceptions=True)

        self._wait_for(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, function: Callable[[], None]) -> None:
        async def called() -> None:
            function()

        self._wait_for(called())

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _serve(self, *client: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = Connection(task, self._links)
        self._connections.add(connection)
        try:
            await self._links[Direction.TO_SERVER].passable()
            await connection.carry(client, await self._connect())
        except asyncio.CancelledError:
            """The network is closed. Python 3.11's server takes a cancelled task for an error."""
        finally:
            self._connections.discard(connection)
            client[1].close()

    async def _connect(self) -> Streams:
        host, port = self._server
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


class Connection:
    def __init__(self, task: asyncio.Task[Any], links: dict[Direction, Link]) -> None:
        self.task = task
        self._links = links
        self._own = Link()

    def forget(self) -> None:
        self._own.close()

    async def carry(self, client: Streams, server: Streams) -> None:
        """Returns when either side has closed."""
        pumps = [
            asyncio.create_task(self._pump(client[0], server[1], Direction.TO_SERVER)),
            asyncio.create_task(self._pump(server[0], client[1], Direction.TO_CLIENT)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            server[1].close()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(BLOCK_BYTES):
                await self._links[direction].passable()
                await self._own.passable()
                target.write(data)
                await target.drain()
            await self._links[direction].passable()  # an end of the stream does not pass either
            await self._own.passable()


@contextlib.contextmanager
def network_to(host: str, port: int) -> Iterator[Network]:
    network = Network(host, port)
    try:
        yield network
    finally:
        network.close()


@contextlib.contextmanager
def network_to_postgres(url: str) -> Iterator[tuple[Network, str]]:
    """The network, and the address of the server through it."""
    server = conninfo_to_dict(url)
    plain = {"sslmode": "disable", "gssencmode": "disable", "hostaddr": None}
    with network_to(str(server["host"]), int(server.get("port") or 5432)) as network:
        there = {**plain, "host": "127.0.0.1", "port": network.port}
        yield network, make_conninfo(url, **there)


@contextlib.contextmanager
def network_to_http(url: str) -> Iterator[tuple[Network, str]]:
    server = urlsplit(url)
    with network_to(str(server.hostname), server.port or 80) as network:
        yield network, f"http://127.0.0.1:{network.port}"
