"""Runs an ASGI application on a real server: inside a running program (`serving`), or as a command
(`serve_until_stopped`)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator

import uvicorn
from starlette.types import ASGIApp

from regente.asgi.sockets import listen

DRAIN_SECONDS = 5
_START_POLL_SECONDS = 0.005
_TICK_SECONDS = 1.0
# Longer than the usual polls of a client, so that it finds its connection open.
_KEEP_ALIVE_SECONDS = 65


class ServiceNotStarted(RuntimeError):
    """The service could not start; its log says why."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    drain_seconds: int = DRAIN_SECONDS,
    farewell: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[str]:
    """The base URL of the application while it is served; port 0 takes a free one. Signals are left
    alone.

    `farewell` is called before it stops, to end what would not end by itself.
    """
    listener = listen(host, port)
    server = _Server(_config(app, drain_seconds))
    running = asyncio.create_task(_run(server, listener), name=f"serving {host}:{port}")
    try:
        while not server.started and not running.done():
            await asyncio.sleep(_START_POLL_SECONDS)
        if running.done():
            running.result()
            raise ServiceNotStarted
        yield _base_url(listener)
    finally:
        if farewell is not None:
            await farewell()
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
    farewell: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `announce` gets the base URL as soon as it answers."""
    stopped = asyncio.Event()
    with stopping_signals(stopped.set):
        async with serving(app, host, port, drain_seconds=drain_seconds, farewell=farewell) as url:
            announce(url)
            await stopped.wait()


@contextlib.contextmanager
def stopping_signals(stop: Callable[[], object]) -> Generator[None]:
    """Call `stop` on SIGTERM and SIGINT, as long as the block runs."""
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
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Wakes up at once when it is stopped; otherwise every second, for the Date header."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals belong to whoever runs the process."""
        yield


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    except SystemExit:  # uvicorn's word for a failed lifespan; it must not end our whole loop
        raise ServiceNotStarted from None


def _config(app: ASGIApp, drain_seconds: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


def _base_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
