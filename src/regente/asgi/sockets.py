"""Listening sockets."""

from __future__ import annotations

import socket

BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    listener = bind(host, port)
    listener.listen(BACKLOG)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """Bind the port without listening: connections are refused, and the port is taken."""
    if not 0 <= port <= 65_535:
        raise OSError(f"cannot listen on port {port}: ports go up to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With protocol 0 asyncio does not set TCP_NODELAY, and every response waits 40 ms for an
    # acknowledgement.
    reserved = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((host, port))
    except OSError as error:
        reserved.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return reserved
