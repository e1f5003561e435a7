"""Accepts connections over TLS. One whose handshake is not done counts already, and has the
deadline for headers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from regente.asgi.connections import ConnectionTable, LimitedProtocol

_TLS_1_2_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Those with forward secrecy and authenticated encryption; TLS 1.3 has no others."""
_PAUSE_SECONDS = 1.0
"""After an accept that failed, as a rule for want of open files."""


def tls_context(certificate: Path, private_key: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, private_key)
    context.set_ciphers(_TLS_1_2_CIPHERS)
    return context


class _Handshake:
    """A new connection, until `LimitedProtocol` takes its place in the table."""

    def __init__(self, table: ConnectionTable, address: str) -> None:
        self.address = address
        self.task: asyncio.Task[None] | None = None
        self._table = table
        self._is_over = False

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._table.forget(self)

    def make_room(self) -> None:
        if self.task is not None:
            self.task.cancel()


class TlsAcceptor:
    def __init__(
        self,
        listener: socket.socket,
        table: ConnectionTable,
        context: ssl.SSLContext,
        new_protocol: Callable[[], LimitedProtocol],
    ) -> None:
        self._listener = listener
        self._table = table
        self._context = context
        self._new_protocol = new_protocol
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(), name="accept TLS connections")

    async def stop(self) -> None:
        await _cancel([self._accepting] if self._accepting else [])
        await _cancel([*self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._begin(accepted, str(peer[0]))
                await asyncio.sleep(0)  # a task that is canceled before it began closes nothing

    def _begin(self, accepted: socket.socket, address: str) -> None:
        handshake = _Handshake(self._table, address)
        if not self._table.admit(handshake):
            handshake.end()
            accepted.close()
            return
        self._table.waits(handshake)
        task = asyncio.create_task(self._shake_hands(accepted, handshake), name="TLS handshake")
        handshake.task = task
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, accepted: socket.socket, handshake: _Handshake) -> None:
        def protocol() -> LimitedProtocol:
            made = self._new_protocol()
            made.before_admission = handshake.end
            return made

        try:
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    protocol,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._table.limits.header_seconds,
                )
        finally:
            handshake.end()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
