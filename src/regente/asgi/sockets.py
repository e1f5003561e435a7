"""Sockets to listen on."""

from __future__ import annotations

import socket

_BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    listener = bind(host, port)
    listener.listen(_BACKLOG)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """Holds the port without listening on it: whoever connects is refused, and nobody else takes
    it."""
    if not 0 <= port <= 65_535:
        raise OSError(f"cannot listen on port {port}: ports go up to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol left open asyncio does not set TCP_NODELAY, and every answer waits 40 ms for
    # an acknowledgement.
    held = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host, port))
    except OSError as error:
        held.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return held
