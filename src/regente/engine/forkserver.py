"""Children for isolated steps, without the time that a process takes to start: one process imports
the step's module once, and forks for each step. Each step still has a process of its own, and
nothing of one is left for the next.

It must never have a thread when it forks: a module that starts one has its children started the
long way. This module is also the nursery's program.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import itertools
import os
import signal
import socket
import struct
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_ORDER = struct.Struct(">Q248s")
_NEWS = struct.Struct(">cQq")
_BORN, _DIED, _REFUSED = b"B", b"D", b"R"
UNKNOWN_END = 255
"""The status of a child whose nursery died before it could tell."""


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """What `isolation` needs of a process, as `asyncio` would give it."""

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    ended: asyncio.Future[int]

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)


class ForkServer:
    """A runner's own. It is started when the first child is asked for, and again should it have
    died."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._births: dict[int, asyncio.Future[int]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}

    async def child(self, module: str) -> ChildProcess | None:
        """A fresh process that has the module; None when there is none to be had here."""
        name = module.encode()
        if sys.platform == "win32" or len(name) > 248:
            return None
        async with self._starting:
            await self._be_there()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        try:
            number, birth = next(self._numbers), asyncio.get_running_loop().create_future()
            self._births[number] = birth
            with theirs:
                socket.send_fds(self._control, [_ORDER.pack(number, name)], [theirs.fileno()])
            pid = await birth
            ended = self._ends[pid]
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except (ChildProcessError, OSError):
            ours.close()
            return None
        except BaseException:
            ours.close()  # a child that comes too late finds nobody there, and goes
            raise
        return ChildProcess(pid, writer, reader, ended)

    async def close(self) -> None:
        if self._process is None or self._control is None or self._listening is None:
            return
        self._control.close()  # it goes when nobody can order any more
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._listening
        self._process = None

    async def _be_there(self) -> None:
        if self._process is not None and self._listening is not None and not self._listening.done():
            return
        await self.close()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                f"from regente.engine.forkserver import main; main({theirs.fileno()})",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=child_environment(),
            )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                self._hear(*_NEWS.unpack(await process.stdout.readexactly(_NEWS.size)))
        for birth in self._births.values():
            _settle(birth, error=ChildProcessError("the nursery died"))
        for end in self._ends.values():
            _settle(end, UNKNOWN_END)
        self._births, self._ends = {}, {}

    def _hear(self, kind: bytes, number: int, value: int) -> None:
        if kind == _DIED:
            _settle(self._ends.pop(number), value)
            return
        birth = self._births.pop(number)
        if kind == _BORN:
            self._ends[value] = asyncio.get_running_loop().create_future()
            _settle(birth, value)
        else:
            _settle(birth, error=ChildProcessError("the module starts threads"))


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _settle(future: asyncio.Future[Any], value: int = 0, error: Exception | None = None) -> None:
    if future.done():  # who waited for it has gone
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


current_forkserver: ContextVar[ForkServer | None] = ContextVar("regente_nursery", default=None)


# The nursery's side.


def main(control_fd: int) -> None:
    news = os.dup(1)
    os.dup2(2, 1)  # what a module prints when it is imported must not mix with the news
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: _reap(news))
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, _ORDER.size, 1)
        if len(order) < _ORDER.size or not descriptors:
            os._exit(0)
        number, name = _ORDER.unpack(order)
        _warm(name.rstrip(b"\x00").decode())
        if _has_threads():
            os.write(news, _NEWS.pack(_REFUSED, number, 0))
        else:
            _fork(number, descriptors[0], news, control)
        os.close(descriptors[0])


def _warm(module: str) -> None:
    """What cannot be imported fails in the child, which can say so."""
    if module not in sys.modules and not module.startswith(("file:", "__main__")):
        with contextlib.suppress(BaseException):
            importlib.import_module(module)
        gc.collect()
        gc.freeze()  # so that the children's collections leave the shared pages alone


def _has_threads() -> bool:
    if threading.active_count() > 1:
        return True
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return False


def _fork(number: int, channel: int, news: int, control: socket.socket) -> None:
    # Its birth is told before its death can be.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        try:
            _be_child(channel, news, control)
        finally:
            os._exit(1)
    os.write(news, _NEWS.pack(_BORN, number, pid))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _be_child(channel: int, news: int, control: socket.socket) -> None:
    from regente.engine import isolation

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    os.dup2(channel, 0)
    os.dup2(channel, 1)
    os.close(channel)
    os.close(news)
    control.close()
    isolation.main()


def _reap(news: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            os.write(news, _NEWS.pack(_DIED, pid, os.waitstatus_to_exitcode(status)))
