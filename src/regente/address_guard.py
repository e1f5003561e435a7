"""Guards requests to untrusted URLs: each connection goes to a checked address.

The name is resolved here, its addresses are checked, and the socket is opened to one of them, so
a second DNS answer changes nothing. Redirects open new connections and are checked too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import urlsplit

import httpcore2
import httpx2

_NAT64 = IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = IPv6Network("::/96")
_WITH_IPV4 = (
    _NAT64,
    _IPV4_COMPATIBLE,
    IPv6Network("64:ff9b:1::/48"),
    IPv6Network("::ffff:0:0:0/96"),
)
"""Their last 32 bits are an IPv4 address: translated, compatible, local NAT64."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The 32 bits before an embedded IPv4 address."""
_GLOBAL_UNICAST = (IPv6Network("2000::/3"), _NAT64)
_NOT_PUBLIC = tuple(map(ip_network, ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))
"""Networks that Python 3.11 takes for public: documentation, protocols, relays."""
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200")))
"""Of clouds, beside the link-local ones."""

Origin = tuple[str, int]
"""A host and its port."""


class AddressRefused(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def origin_of(url: str) -> Origin:
    parts = urlsplit(url)
    return (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def check_url(url: str, *, allow_private: bool) -> None:
    """Refuse a URL by its text, before any name is resolved."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused(f"the URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise AddressRefused(f"the URL's scheme is {parts.scheme!r}; only http and https are read")
    if not host:
        raise AddressRefused("the URL has no host")
    try:
        check_address(_written_out(host), allow_private=allow_private)
    except ValueError:
        return  # a name: its addresses are checked on connect


def _written_out(host: str) -> str:
    """The address in four parts, if the host is one that the system reads: `2852039166`."""
    plain = normalize("NFKC", host).replace("\u3002", ".").encode("ascii", "ignore").decode()
    try:
        return host if ":" in host else socket.inet_ntoa(socket.inet_aton(plain.removesuffix(".")))
    except OSError:
        return host


def check_address(address: str, *, allow_private: bool) -> None:
    for one in _addresses_in(ip_address(address.split("%")[0])):
        always_refused = one.is_link_local or one.is_multicast or one.is_unspecified
        if always_refused or one in _METADATA or not (allow_private or _is_public(one)):
            raise AddressRefused(f"{address} is not a public address; nothing is read from it")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and not _is_in(address, _GLOBAL_UNICAST):
        return False
    return address.is_global and not _is_in(address, _NOT_PUBLIC)


def _is_in(
    address: IPv4Address | IPv6Address, networks: Iterable[IPv4Network | IPv6Network]
) -> bool:
    return any(address in network for network in networks)


def _addresses_in(address: IPv4Address | IPv6Address) -> Iterable[IPv4Address | IPv6Address]:
    """The address, and any IPv4 address that an IPv6 one embeds."""
    if isinstance(address, IPv4Address):
        return [address]
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
    if is_isatap or (_is_in(address, _WITH_IPV4) and int(address) > 1):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    found: list[IPv4Address | IPv6Address] = [one for one in inner if one is not None]
    return found if address.ipv4_mapped else [address, *found]


class GuardedNetwork(httpcore2.AnyIOBackend):
    """A network backend that checks addresses, except those of configured `trusted` origins."""

    def __init__(self, *, allow_private: bool, trusted: frozenset[Origin] = frozenset()) -> None:
        self._allow_private = allow_private
        self._trusted = trusted

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port, timeout)
        if (host, port) not in self._trusted:
            for address in addresses:
                check_address(address, allow_private=self._allow_private)
        last_error: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last_error = error
        raise last_error

    async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time") from None
        except OSError:
            raise httpcore2.ConnectError(f"the name {host} has no address") from None
        return list(dict.fromkeys(str(one[4][0]) for one in found))


class GuardedTransport(httpx2.AsyncHTTPTransport):
    def __init__(
        self, *, allow_private: bool, connections: int, trusted: frozenset[Origin] = frozenset()
    ) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=connections,
            max_keepalive_connections=0,
            network_backend=GuardedNetwork(allow_private=allow_private, trusted=trusted),
        )
