"""Owns the end of the embedded server: whether it has users, whether it lives, and its stop.

Kernel locks (flock) tell what lives: they vanish with their holder, however it dies; recorded pids
are only hints. As a script it is the monitor, which waits for the last user and then stops the
server, also after kill -9. It imports the standard library only, to start fast and stay small.

    start.lock    exclusive, during a start or stop of the server
    users.lock    shared, by every user of the server
    server.lock   exclusive, inherited by the postmaster and all its children: free means that all
                  of them are gone
    keeper.lock   exclusive, by the monitor
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HAS_PROC = Path("/proc/self/cwd").exists()
_POLL_SECONDS = 0.01
_FAST_STOP_SECONDS = 60.0
_IMMEDIATE_STOP_SECONDS = 15.0


class Lock:
    """One flock on its own open file; two of them exclude each other even within a process."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.path = path
        self.fd = os.open(path, flags, 0o600)

    def try_exclusive(self) -> bool:
        return self._try(fcntl.LOCK_EX)

    def exclusive(self, within_seconds: float | None = None) -> bool:
        return self._wait(fcntl.LOCK_EX, within_seconds)

    def shared(self, within_seconds: float | None = None) -> bool:
        return self._wait(fcntl.LOCK_SH, within_seconds)

    def unlock(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release by closing, not by LOCK_UN: a forked child that shares the lock keeps it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _try(self, mode: int) -> bool:
        try:
            fcntl.flock(self.fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self, mode: int, within_seconds: float | None) -> bool:
        if within_seconds is None:
            fcntl.flock(self.fd, mode)
            return True
        return _wait_until(lambda: self._try(mode), within_seconds)


class ServerFiles:
    """Paths in a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.cluster = data_dir / "postgres"
        self.postmaster_pid = self.cluster / "postmaster.pid"
        self.log = data_dir / "server.log"
        self.start_lock = data_dir / "start.lock"
        self.users_lock = data_dir / "users.lock"
        self.server_lock = data_dir / "server.lock"
        self.monitor_lock = data_dir / "keeper.lock"

    def server_is_gone(self) -> bool:
        """True when the postmaster and all its backends are gone. Requires the start lock."""
        try:
            with Lock(self.server_lock, create=False) as lock:
                return lock.try_exclusive()
        except FileNotFoundError:
            return True

    def recorded_postmaster(self) -> list[str]:
        """The lines of postmaster.pid, which may be stale: pid, folder, start, port, socket, …"""
        try:
            return self.postmaster_pid.read_text(errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return []

    def live_postmaster(self) -> int | None:
        lines = self.recorded_postmaster()
        pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
        return pid if pid > 0 and _is_server_of(pid, self.cluster) else None


def has_no_users(files: ServerFiles) -> bool:
    """True without users. Requires the start lock, without which the answer may be outdated."""
    with Lock(files.users_lock) as users:
        while not users.try_exclusive():
            if users.shared(within_seconds=0):
                return users.try_exclusive()  # the monitor may have just released it
            time.sleep(_POLL_SECONDS)  # the monitor holds it for a moment (see `monitor`)
        return True


def stop_server(files: ServerFiles) -> bool:
    """Stop the server, fast first, then by force with crash recovery. Requires the start lock."""
    for sign, timeout_seconds in (
        (signal.SIGINT, _FAST_STOP_SECONDS),
        (signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS),
        (signal.SIGKILL, _IMMEDIATE_STOP_SECONDS),
    ):
        if files.server_is_gone():
            return True
        postmaster = files.live_postmaster()
        if postmaster is None:
            return end_orphans(files)
        with contextlib.suppress(ProcessLookupError):
            os.kill(postmaster, sign)
        _wait_until(files.server_is_gone, timeout_seconds)
    return end_orphans(files)


def end_orphans(files: ServerFiles, timeout_seconds: float = 5.0) -> bool:
    """Kill the backends of a killed postmaster, which may be in a long computation."""
    _wait_until(
        lambda: files.server_is_gone() or files.live_postmaster() is not None, timeout_seconds
    )
    if files.live_postmaster() is not None:
        return False  # it was starting, and had not recorded itself yet
    orphans = _processes_in(files.cluster)
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # With the lock held and no process visible, they are in another container: out of our reach.
    return _wait_until(files.server_is_gone, _IMMEDIATE_STOP_SECONDS if orphans else 0)


def monitor(data_dir: Path, monitor_lock_fd: int) -> None:
    """Block, without polling, until the server has no user; then stop it."""
    files = ServerFiles(data_dir)
    with Lock(files.users_lock) as users, Lock(files.start_lock) as start:
        while True:
            users.exclusive()
            # Release at once: a holder of the start lock may wait for this lock, and we wait for
            # the start lock next.
            users.unlock()
            start.exclusive()
            if users.try_exclusive():
                break
            start.unlock()
        try:
            stop_server(files)
        finally:
            # Before the start lock: the next user must not find a monitor that is about to end.
            os.close(monitor_lock_fd)


def _is_server_of(pid: int, cluster: Path) -> bool:
    """True when the process is this cluster's server; pids are reused, as in containers."""
    if _HAS_PROC:
        try:
            return os.path.samefile(f"/proc/{pid}/cwd", cluster)
        except OSError:
            return False
    ps_output = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=", "-o", "comm="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return "postgres" in ps_output and not ps_output.lstrip().startswith("Z")


def _processes_in(cluster: Path) -> list[int]:
    if not _HAS_PROC:
        return []
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _is_postgres(pid) and _is_server_of(pid, cluster)]


def _is_postgres(pid: int) -> bool:
    """True for a postgres process: a user's shell may have the same working folder."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return False


def _wait_until(condition: Callable[[], bool], within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def main() -> None:
    data_dir, monitor_lock_fd = Path(sys.argv[1]), int(sys.argv[2])
    # It ends after the last user; an earlier end would leave the server without a stop.
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    os.ftruncate(monitor_lock_fd, 0)
    os.write(monitor_lock_fd, f"{os.getpid()}\n".encode())
    # In a deleted folder there is nothing to stop: PostgreSQL notices the loss and ends.
    with contextlib.suppress(FileNotFoundError):
        monitor(data_dir, monitor_lock_fd)


if __name__ == "__main__":
    main()
