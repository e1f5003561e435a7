"""Limits and deadlines of HTTP connections: clients that are slow, silent or many leave room for
others."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

RESERVED_FILES = 96
"""Open files that are left to the database, the log and the rest of the process."""
MOST_CONNECTIONS = 10_000
REQUEST_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def affordable_connections() -> int:
    """The number of connections for which the process has file descriptors, less those that it
    needs itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(16, min(MOST_CONNECTIONS, soft - RESERVED_FILES))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    total: int = field(default_factory=affordable_connections)
    """When they are used up, a new connection takes the place of the one that has waited longest
    for the rest of its request, or else of a client that does not read its answers."""
    per_client: int = 1024
    """Connections from one address; more are closed at once."""
    header_seconds: float = 10.0
    """From the connection, or the first byte of a request, to the end of its headers."""
    body_seconds: float = 30.0
    body_bytes_per_second: int = 16 * 1024
    """A body may take `body_seconds`, and longer while it comes at this rate."""
    write_seconds: float = 60.0
    """A client that reads nothing for so long is disconnected."""


class Connection(Protocol):
    address: str

    def make_room(self) -> None:
        """Close the connection now."""


class ConnectionTable:
    """The open connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._of_client: dict[str, int] = {}
        self._count = 0
        self._waiting: dict[Connection, None] = {}  # for a request; the longest first
        self._greedy: dict[Connection, None] = {}
        """Those that do not read, or send the next requests before they have read an answer."""

    def admit(self, connection: Connection) -> bool:
        """Count the connection; False when it has to be closed at once."""
        address = connection.address
        self._count += 1
        self._of_client[address] = self._of_client.get(address, 0) + 1
        if self._of_client[address] > self.limits.per_client:
            return False
        if self._count > self.limits.total:
            victim = next(iter(self._waiting), None) or next(iter(self._greedy), None)
            if victim is None:
                return False
            self.works(victim)  # a second new connection needs another victim
            self._greedy.pop(victim, None)
            victim.make_room()
        return True

    def waits(self, connection: Connection) -> None:
        self._waiting.setdefault(connection)

    def works(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def is_greedy(self, connection: Connection, greedy: bool) -> None:
        if greedy:
            self._greedy.setdefault(connection)
        else:
            self._greedy.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        self._greedy.pop(connection, None)
        self._count -= 1
        self._of_client[connection.address] -= 1
        if not self._of_client[connection.address]:
            del self._of_client[connection.address]


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with a deadline for each phase of a request."""

    def __init__(self, table: ConnectionTable, **options: Any) -> None:
        super().__init__(**options)
        self.address = ""
        self.before_admission: Callable[[], None] | None = None
        """Ends what has counted for this connection so far: its TLS handshake."""
        self._table = table
        self._limits = table.limits
        self._deadline: asyncio.TimerHandle | None = None
        self._phase: object = None
        self._phase_began = 0.0
        self._request_bytes = 0
        self._write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.before_admission is not None:
            self.before_admission()
        if self._table.admit(self):
            self._follow()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.forget(self)
        for timer in (self._deadline, self._write_deadline):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._request_bytes += len(data)
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._table.is_greedy(self, True)
        self._write_deadline = self.loop.call_later(
            self._limits.write_seconds, self.transport.abort
        )

    def resume_writing(self) -> None:
        super().resume_writing()
        self._table.is_greedy(self, False)
        if self._write_deadline is not None:
            self._write_deadline.cancel()

    def time_out(self) -> None:
        """Close a connection whose request is not complete."""
        if self.conn.our_state is h11.IDLE and not self._between_requests:
            self.transport.write(REQUEST_TIMEOUT)
        self.transport.close()

    def make_room(self) -> None:
        """Close the connection now, also if its client does not read what is to be sent."""
        self.time_out()
        if self.transport.get_write_buffer_size() or self.transport.get_extra_info("ssl_object"):
            self.transport.abort()

    @property
    def _between_requests(self) -> bool:
        return self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]

    def _follow(self) -> None:
        """Note the phase of the request, and begin its deadline."""
        state = self.conn.their_state
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._table.waits(self)
        else:
            self._table.works(self)
        self._table.is_greedy(self, self.flow.write_paused or bool(self.conn.trailing_data[0]))
        phase = None if state is h11.IDLE and self._between_requests else state
        if phase is self._phase:
            return
        self._phase, self._phase_began = phase, self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        if phase is h11.IDLE:
            self._deadline = self.loop.call_later(self._limits.header_seconds, self.time_out)
        elif phase is not h11.SEND_BODY:
            self._request_bytes = 0
        else:
            self._deadline = self.loop.call_later(self._limits.body_seconds, self._check_body)

    def _check_body(self) -> None:
        limits = self._limits
        allowed = limits.body_seconds + self._request_bytes / limits.body_bytes_per_second
        left = self._phase_began + allowed - self.loop.time()
        if self.flow.read_paused:  # the application is slow, not the client
            left = max(left, 1.0)
        if left <= 0:
            self.time_out()
        else:
            self._deadline = self.loop.call_later(left, self._check_body)
