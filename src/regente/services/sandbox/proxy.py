"""A forward proxy on a loopback port: absolute-form and CONNECT, basic auth, injected faults.

It forwards to loopback addresses only, one request per connection; a tunnel stays open until one
end closes it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from regente.asgi.sockets import bind
from regente.services.sandbox.faults import FaultInjector, FaultKind, ObservedRequest

_MAX_HEAD_BYTES = 65_536
_PIECE_BYTES = 65_536
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ProxyAccount:
    """Address and credentials of a proxy."""

    name: str
    host: str
    port: int
    username: str
    password: str = field(repr=False)

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class _RequestHead:
    method: str
    target: str
    headers: list[tuple[str, str]]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class _Refusal(Exception):
    """Ends the exchange with an error response of the proxy itself."""

    def __init__(self, status: int, reason: str, *headers: str) -> None:
        self.answer = "\r\n".join(
            (
                f"HTTP/1.1 {status} {reason}",
                *headers,
                "Content-Length: 0",
                "Connection: close",
                "",
                "",
            )
        )


class ForwardProxy:
    """A proxy for one account; `proxy_ports` gets the local port of each forwarded connection."""

    def __init__(
        self, account: ProxyAccount, faults: FaultInjector, proxy_ports: MutableMapping[int, str]
    ) -> None:
        self.account = account
        self.connections = 0
        self._faults = faults
        self._proxy_ports = proxy_ports
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None
        self._exchanges: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None

    async def open(self, listener: socket.socket) -> None:
        self._faults.watch(self._apply_refusals)
        await self._accept_on(listener)

    async def close(self) -> None:
        if self._opening is not None:
            await self._opening
        self._stop_accepting()
        if self._reserved is not None:
            self._reserved.close()
        await asyncio.gather(*self._exchanges, return_exceptions=True)

    def _apply_refusals(self) -> None:
        refused = self._faults.refuses(self.account.name)
        if refused and self._server is not None:
            self._stop_accepting()
            self._reserved = bind(self.account.host, self.account.port)
        elif not refused and self._reserved is not None:
            listener, self._reserved = self._reserved, None
            listener.listen()
            self._opening = asyncio.ensure_future(self._accept_on(listener))

    async def _accept_on(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=_MAX_HEAD_BYTES)
        self._apply_refusals()

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for exchange in self._exchanges:
            exchange.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = asyncio.current_task()
        assert exchange is not None
        self._exchanges.add(exchange)
        self.connections += 1
        try:
            await self._exchange(reader, writer)
        except _Refusal as refusal:
            writer.write(refusal.answer.encode())
        except (
            OSError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            writer.transport.abort()
        finally:
            self._exchanges.discard(exchange)
            await _close(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        await self._apply_fault(writer)
        if not self._is_authorized(head.header("proxy-authorization")):
            raise _Refusal(
                407, "Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="sandbox"'
            )
        host, port, first_bytes = _destination(head)
        try:
            upstream_reader, upstream = await asyncio.open_connection(host, port)
        except OSError:
            raise _Refusal(502, "Bad Gateway") from None
        local_port = upstream.get_extra_info("sockname")[1]
        self._proxy_ports[local_port] = self.account.name
        try:
            if head.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            upstream.write(first_bytes)
            await _relay(reader, writer, upstream_reader, upstream)
        finally:
            self._proxy_ports.pop(local_port, None)
            await _close(upstream)

    async def _apply_fault(self, writer: asyncio.StreamWriter) -> None:
        fault = self._faults.take_match(ObservedRequest(self.account.name), by_proxy=True)
        if fault is None:
            return
        if fault.kind is FaultKind.PROXY_407:
            raise _Refusal(
                407, "Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="sandbox"'
            )
        if fault.kind is FaultKind.PROXY_451:
            raise _Refusal(451, "Unavailable For Legal Reasons")
        if fault.kind is FaultKind.PROXY_RESET:
            _reset_on_close(writer)
            raise ConnectionResetError
        if fault.kind is FaultKind.PROXY_HANG:
            await asyncio.Event().wait()

    def _is_authorized(self, credentials: str | None) -> bool:
        expected = base64.b64encode(f"{self.account.username}:{self.account.password}".encode())
        return credentials is not None and hmac.compare_digest(
            credentials.encode(), b"Basic " + expected
        )


def _parse_head(raw: bytes) -> _RequestHead:
    first, *lines = raw.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise _Refusal(400, "Bad Request")
    pairs = (line.partition(":") for line in lines if line)
    return _RequestHead(
        words[0], words[1], [(name.strip(), value.strip()) for name, _, value in pairs]
    )


def _destination(head: _RequestHead) -> tuple[str, int, bytes]:
    """Return the destination's host and port, and the bytes to send there first."""
    url = urlsplit(f"//{head.target}" if head.method == "CONNECT" else head.target)
    try:
        host, port = url.hostname, url.port
    except ValueError:
        raise _Refusal(400, "Bad Request") from None
    if host is None or (head.method != "CONNECT" and url.scheme != "http"):
        raise _Refusal(400, "Bad Request")
    if host not in _LOOPBACK:
        raise _Refusal(403, "Forbidden")
    if head.method == "CONNECT":
        return host, port or 443, b""
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [
        f"{name}: {value}"
        for name, value in head.headers
        if not name.lower().startswith(("proxy-", "connection"))
    ]
    lines = (f"{head.method} {path} HTTP/1.1", *kept, "Connection: close", "", "")
    return host, port or 80, "\r\n".join(lines).encode("latin-1")


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Copy both ways until one end closes."""
    pumps = [
        asyncio.create_task(_pump(reader, far_writer)),
        asyncio.create_task(_pump(far_reader, writer)),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Make the close send RST instead of FIN."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
