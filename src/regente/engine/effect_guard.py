"""Refuses effects while recorded steps are replayed: network, child processes, changes to files and
the engine's own connections.

An audit hook cannot be removed, so it is added at the first replay only, and looks at one flag
otherwise. It does not see a driver that connects in C by itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from regente.engine.errors import ControlFlow

_REFUSED = frozenset(
    {
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendto",
        "socket.sendmsg",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.kill",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "sqlite3.connect",
    }
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class EffectRefused(ControlFlow):
    """Code of a pipeline tried to have an effect outside of a step."""


class _Guard:
    on = False
    added = False
    refused: str | None = None  # the first


_guard = _Guard()


@contextlib.contextmanager
def effects_refused() -> Iterator[None]:
    """Refuse effects of the whole process, in all its threads, in this block."""
    if not _guard.added:
        sys.addaudithook(_audit)
        _guard.added = True
    wrote_bytecode = not sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # of modules that are imported late
    _guard.on, _guard.refused = True, None
    try:
        yield
    finally:
        _guard.on = False
        sys.dont_write_bytecode = not wrote_bytecode


def refused_effect() -> str | None:
    """What the code in the block tried first, also when it caught the refusal."""
    return _guard.refused


def refuse(what: str) -> None:
    """Raise in a block of `effects_refused`."""
    if _guard.on:
        _guard.refused = _guard.refused or what
        raise EffectRefused(what)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _guard.on and (event in _REFUSED or (event == "open" and _opens_to_write(args))):
        shown = ", ".join(repr(one)[:100] for one in args if isinstance(one, str | int | tuple))
        refuse(f"{event}({shown})")


def _opens_to_write(args: tuple[Any, ...]) -> bool:
    return isinstance(args[2], int) and bool(args[2] & _WRITES)
