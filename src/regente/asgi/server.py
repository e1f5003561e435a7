"""Runs an ASGI application with uvicorn: in a program (`serving`), or as a command."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from regente.asgi.connections import ConnectionLimits, ConnectionTable, LimitedProtocol
from regente.asgi.cookies import PlainCookies
from regente.asgi.sockets import BACKLOG, listen
from regente.asgi.tls import TlsAcceptor, tls_context

DRAIN_SECONDS = 5
_START_POLL_SECONDS = 0.005
_TICK_SECONDS = 1.0
_ACCEPTED_AT_ONCE = 32
"""Connections that asyncio accepts before any of them can be refused; each is an open file."""
# Longer than a client's usual poll interval, so that polls reuse a connection.
_KEEP_ALIVE_SECONDS = 65


@dataclass(frozen=True, slots=True)
class Ingress:
    """How clients reach the server: directly or through proxies, with or without TLS."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    certificate: Path | None = None
    private_key: Path | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


DIRECT = Ingress()


class ServiceNotStarted(RuntimeError):
    """The service could not start; its log has the reason."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    drain_seconds: int = DRAIN_SECONDS,
    before_stop: Callable[[], Awaitable[None]] | None = None,
    limits: ConnectionLimits | None = None,
    ingress: Ingress = DIRECT,
) -> AsyncIterator[str]:
    """Serve the application and yield its base URL; port 0 takes a free one. Signals are not
    handled.

    `before_stop` is called before the stop, to end responses that would never end.
    """
    server = _Server(app, drain_seconds, ConnectionTable(limits or ConnectionLimits()), ingress)
    listener = listen(host, port)
    running = asyncio.create_task(_run(server, listener), name=f"serving {host}:{port}")
    try:
        while not server.started and not running.done():
            await asyncio.sleep(_START_POLL_SECONDS)
        if running.done():
            running.result()
            raise ServiceNotStarted
        listener.listen(BACKLOG)  # uvicorn has set it to _ACCEPTED_AT_ONCE
        yield _base_url(listener, ingress.scheme)
    finally:
        if before_stop is not None:
            await before_stop()
        server.stop()
        with contextlib.suppress(ServiceNotStarted):
            await running
        listener.close()


async def serve_until_stopped(
    app: ASGIApp,
    host: str,
    port: int,
    announce: Callable[[str], None],
    *,
    drain_seconds: int = DRAIN_SECONDS,
    before_stop: Callable[[], Awaitable[None]] | None = None,
    ingress: Ingress = DIRECT,
) -> None:
    """Serve until SIGTERM or SIGINT. `announce` gets the base URL once the application answers."""
    stopped = asyncio.Event()
    with stopping_signals(stopped.set):
        async with serving(
            app, host, port, drain_seconds=drain_seconds, before_stop=before_stop, ingress=ingress
        ) as url:
            announce(url)
            await stopped.wait()


@contextlib.contextmanager
def stopping_signals(stop: Callable[[], object]) -> Generator[None]:
    """Call `stop` on SIGTERM and SIGINT while the block runs."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Server(uvicorn.Server):
    def __init__(
        self, app: ASGIApp, drain_seconds: int, table: ConnectionTable, ingress: Ingress
    ) -> None:
        super().__init__(_config(app, drain_seconds, table, ingress))
        self._stopping = asyncio.Event()
        self._table = table
        self._tls: ssl.SSLContext | None = None
        if ingress.certificate:
            self._tls = tls_context(ingress.certificate, ingress.private_key)
        self._acceptors: list[TlsAcceptor] = []

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        context = self._tls
        await super().startup(sockets if context is None else [])
        if context is None or not self.started:
            return
        for listener in sockets or ():
            acceptor = TlsAcceptor(listener, self._table, context, self._new_protocol)
            acceptor.start()
            self._acceptors.append(acceptor)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.stop()
        await super().shutdown(sockets)

    def _new_protocol(self) -> LimitedProtocol:
        """One as uvicorn makes them for its own listeners."""
        return LimitedProtocol(
            self._table,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    async def main_loop(self) -> None:
        """Wake up at once on a stop, otherwise every second for the Date header."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing: signals belong to the caller."""
        yield


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    except SystemExit:  # uvicorn raises it for a failed lifespan; it must not end the event loop
        raise ServiceNotStarted from None


def _config(
    app: ASGIApp, drain_seconds: int, table: ConnectionTable, ingress: Ingress
) -> uvicorn.Config:
    return uvicorn.Config(
        PlainCookies(app),
        http=cast("type[asyncio.Protocol]", partial(LimitedProtocol, table)),
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=_ACCEPTED_AT_ONCE,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        proxy_headers=bool(ingress.trusted_proxies),
        forwarded_allow_ips=list(ingress.trusted_proxies),
    )


def _base_url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
