"""Starts child processes for isolated steps fast: one server process imports the step's module
once, and forks for each step. Each step has a process of its own and inherits nothing from another.

The server must have no threads when it forks: for a module that starts one, `isolation.py` starts a
new interpreter for each step. This module is also the server's program.
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

from regente.engine.attempt_tasks import outside_attempts

_REQUEST = struct.Struct(">Q248s")
_REPORT = struct.Struct(">cQq")
_STARTED, _ENDED, _REFUSED = b"B", b"D", b"R"
UNKNOWN_STATUS = 255
"""The exit status of a child whose fork server died before it reported one."""


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A forked child, with the attributes of asyncio's `Process` that `isolation` needs."""

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    ended: asyncio.Future[int]

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)


class ForkServer:
    """The client side, one for each runner. It starts the server process for the first child, and
    again after the server died."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._starts: dict[int, asyncio.Future[int]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}

    async def child(self, module: str) -> ChildProcess | None:
        """Fork a process that has imported the module; None when that is not possible."""
        name = module.encode()
        if sys.platform == "win32" or len(name) > 248:
            return None
        async with self._starting:
            # In no attempt's context: the server is shared, the attempt may end before it does.
            starting = asyncio.create_task(self._ensure_running(), context=outside_attempts())
            await starting
        assert self._control is not None
        ours, theirs = socket.socketpair()
        try:
            number, start = next(self._numbers), asyncio.get_running_loop().create_future()
            self._starts[number] = start
            with theirs:
                socket.send_fds(self._control, [_REQUEST.pack(number, name)], [theirs.fileno()])
            pid = await start
            ended = self._ends[pid]
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except (ChildProcessError, OSError):
            ours.close()
            return None
        except BaseException:
            ours.close()  # a child that starts after this finds its channel closed, and exits
            raise
        return ChildProcess(pid, writer, reader, ended)

    async def close(self) -> None:
        if self._process is None or self._control is None or self._listening is None:
            return
        self._control.close()  # the server exits when its control socket is closed
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._listening
        self._process = None

    async def _ensure_running(self) -> None:
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
                self._hear(*_REPORT.unpack(await process.stdout.readexactly(_REPORT.size)))
        for start in self._starts.values():
            _settle(start, error=ChildProcessError("the fork server died"))
        for end in self._ends.values():
            _settle(end, UNKNOWN_STATUS)
        self._starts, self._ends = {}, {}

    def _hear(self, kind: bytes, number: int, value: int) -> None:
        if kind == _ENDED:
            _settle(self._ends.pop(number), value)
            return
        start = self._starts.pop(number)
        if kind == _STARTED:
            self._ends[value] = asyncio.get_running_loop().create_future()
            _settle(start, value)
        else:
            _settle(start, error=ChildProcessError("the module starts threads"))


KEPT_VARIABLES = frozenset(
    ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "TMPDIR", "TZ")
)


def child_environment() -> dict[str, str]:
    """The variables that an interpreter needs, without keys and passwords: the child may read
    hostile input."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _settle(future: asyncio.Future[Any], value: int = 0, error: Exception | None = None) -> None:
    if future.done():  # the waiting step was cancelled
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


current_forkserver: ContextVar[ForkServer | None] = ContextVar("regente_forkserver", default=None)


# The server's side.


def main(control_fd: int) -> None:
    reports = os.dup(1)
    os.dup2(2, 1)  # what a module prints when it is imported must not mix with the reports
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: _reap(reports))
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _REQUEST.size, 1)
        if len(request) < _REQUEST.size or not descriptors:
            os._exit(0)
        number, name = _REQUEST.unpack(request)
        _import(name.rstrip(b"\x00").decode())
        if _has_threads():
            os.write(reports, _REPORT.pack(_REFUSED, number, 0))
        else:
            _fork(number, descriptors[0], reports, control)
        os.close(descriptors[0])


def _import(module: str) -> None:
    """Import the module. An import error is raised again in the child, which reports it."""
    if module not in sys.modules and not module.startswith(("file:", "__main__")):
        with contextlib.suppress(BaseException):
            importlib.import_module(module)
        gc.collect()
        gc.freeze()  # so that the children's collections do not copy the shared pages


def _has_threads() -> bool:
    if threading.active_count() > 1:
        return True
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return False


def _fork(number: int, channel: int, reports: int, control: socket.socket) -> None:
    # The start is reported before the end can be.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        try:
            _become_child(channel, reports, control)
        finally:
            os._exit(1)
    os.write(reports, _REPORT.pack(_STARTED, number, pid))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _become_child(channel: int, reports: int, control: socket.socket) -> None:
    from regente.engine import isolation

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    os.dup2(channel, 0)
    os.dup2(channel, 1)
    os.close(channel)
    os.close(reports)
    control.close()
    isolation.main()


def _reap(reports: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            os.write(reports, _REPORT.pack(_ENDED, pid, os.waitstatus_to_exitcode(status)))
