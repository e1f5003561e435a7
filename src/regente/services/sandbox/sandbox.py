"""Opens and closes the library, its proxies and the stand-ins together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from fastapi import FastAPI

from regente.asgi.server import serving
from regente.asgi.sockets import listen
from regente.contracts.worker import Filters
from regente.services.sandbox.catalogue import Catalogue
from regente.services.sandbox.faults import Fault, FaultInjector, FaultKind
from regente.services.sandbox.library import Library
from regente.services.sandbox.proxy import ForwardProxy, ProxyAccount
from regente.services.sandbox.standin import Standin

_CLOSING_SECONDS = 1


class Sandbox:
    """`async with Sandbox(proxies=3) as sandbox:` gives `library_url`, `proxies` and `faults`.

    With `proxy_port` the proxies listen on that port and the ones after it, else on free ones.
    """

    def __init__(
        self,
        *,
        proxies: int = 2,
        seed: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        proxy_port: int = 0,
        ads_per_cell: int = 20,
        standins: Sequence[Standin] = (),
    ) -> None:
        self.catalogue = Catalogue(seed, ads_per_cell)
        self.faults = FaultInjector(seed)
        self.standins = standins
        self.library_url = ""
        self.proxies: list[ProxyAccount] = []
        self._plan = (proxies, host, port, proxy_port)
        self._proxy_ports: dict[int, str] = {}
        self._forwarders: list[ForwardProxy] = []
        self._stack = AsyncExitStack()

    def total(self, filters: Filters) -> int:
        """Number of ads that a complete scrape finds."""
        return self.catalogue.total(filters)

    def break_with(self, kind: FaultKind, **scope: Any) -> int:
        """Activate a fault (`Fault` has its scope) and return its id, which clears it."""
        return self.faults.add(Fault(kind=kind, **scope))

    def reset(self) -> None:
        """Remove all faults and set all counts to zero."""
        self.faults.clear()
        self.faults.struck = dict.fromkeys(FaultKind, 0)
        for forwarder in self._forwarders:
            forwarder.connections = 0
        for standin in self.standins:
            standin.reset()

    @property
    def url(self) -> str:
        """The base URL of the library and, each under its prefix, of the stand-ins."""
        return self.library_url

    def calls(self) -> dict[str, dict[str, int]]:
        """How often each stand-in was called, by prefix and route."""
        return {standin.prefix: dict(standin.calls) for standin in self.standins}

    def connections_through(self, proxy: ProxyAccount) -> int:
        return next(one.connections for one in self._forwarders if one.account == proxy)

    def addresses(self) -> dict[str, Any]:
        proxies = [
            {
                "name": one.name,
                "host": one.host,
                "port": one.port,
                "username": one.username,
                "password": one.password,
            }
            for one in self.proxies
        ]
        return {"library_url": self.library_url, "seed": self.catalogue.seed, "proxies": proxies}

    async def __aenter__(self) -> Self:
        count, host, port, proxy_port = self._plan
        library = Library(self.catalogue, self.faults, self._proxy_ports)
        async with AsyncExitStack() as opening:
            self.library_url = await opening.enter_async_context(
                serving(self._app(library), host, port, drain_seconds=_CLOSING_SECONDS)
            )
            opening.callback(library.closing.set)
            for number in range(1, count + 1):
                forwarder = await self._open_proxy(
                    number, host, proxy_port + number - 1 if proxy_port else 0
                )
                opening.push_async_callback(forwarder.close)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def _app(self, library: Library) -> FastAPI:
        app = library.app()
        app.add_api_route("/standins", self.calls, methods=["GET"])
        for standin in self.standins:
            app.include_router(standin.router(), prefix=standin.prefix)
        return app

    async def _open_proxy(self, number: int, host: str, port: int) -> ForwardProxy:
        listener = listen(host, port)
        account = ProxyAccount(
            f"proxy-{number}",
            host,
            listener.getsockname()[1],
            f"user{number}",
            _password(self.catalogue.seed, number),
        )
        forwarder = ForwardProxy(account, self.faults, self._proxy_ports)
        await forwarder.open(listener)
        self.proxies.append(account)
        self._forwarders.append(forwarder)
        return forwarder


def _password(seed: int, number: int) -> str:
    """A password that protects the sandbox only, with characters that a client must quote."""
    return f"p@ss:{hashlib.blake2b(f'{seed}/{number}'.encode(), digest_size=4).hexdigest()}/%"
