"""Owns the end of the embedded server: who still uses it, whether it still lives, and how it is
stopped.

Liveness is told by kernel locks (flock), which vanish with their holder however it dies; recorded
pids are only hints. Runs as a script too: the keeper waits for the last user and then stops the
server, also after kill -9. It imports the standard library only, so that it starts in an instant
and stays small.

    start.lock    exclusive, while somebody starts or stops the server
    users.lock    shared, by every user of the server for as long as it uses it
    server.lock   exclusive, inherited by the postmaster and all its children: free means that none
      of them lives
    keeper.lock   exclusive, by the keeper
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
    """One flock on its own open file, so that two of them exclude each other within one process as
    well."""

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
        """Lets go by closing, never by LOCK_UN: a forked child that shares this lock keeps it."""
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
    """Where everything lies inside a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.cluster = data_dir / "postgres"
        self.postmaster_pid = self.cluster / "postmaster.pid"
        self.log = data_dir / "server.log"
        self.start_lock = data_dir / "start.lock"
        self.users_lock = data_dir / "users.lock"
        self.server_lock = data_dir / "server.lock"
        self.keeper_lock = data_dir / "keeper.lock"

    def server_is_gone(self) -> bool:
        """True when neither the postmaster nor any backend that it left behind lives. Ask under the
        start lock only."""
        try:
            with Lock(self.server_lock, create=False) as lock:
                return lock.try_exclusive()
        except FileNotFoundError:
            return True

    def recorded_postmaster(self) -> list[str]:
        """The lines of postmaster.pid, which may be stale: pid, folder, start, port, socket folder,
        …"""
        try:
            return self.postmaster_pid.read_text(errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return []

    def live_postmaster(self) -> int | None:
        lines = self.recorded_postmaster()
        pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
        return pid if pid > 0 and _serves(pid, self.cluster) else None


def nobody_uses(files: ServerFiles) -> bool:
    """Ask under the start lock only: there is no telling what comes after it."""
    with Lock(files.users_lock) as users:
        while not users.try_exclusive():
            if users.shared(within_seconds=0):
                return users.try_exclusive()  # the keeper may have let go of it just now
            time.sleep(
                _POLL_SECONDS
            )  # the keeper has it for a moment, and lets go of it (see `keep`)
        return True


def stop_server(files: ServerFiles) -> bool:
    """Stops the server the fast way, then the hard ways; crash recovery makes up for those. Needs
    the start lock."""
    for sign, patience_seconds in (
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
        _wait_until(files.server_is_gone, patience_seconds)
    return end_orphans(files)


def end_orphans(files: ServerFiles, patience_seconds: float = 5.0) -> bool:
    """Backends end by themselves when their postmaster was killed, but not in the midst of a long
    computation."""
    _wait_until(
        lambda: files.server_is_gone() or files.live_postmaster() is not None, patience_seconds
    )
    if files.live_postmaster() is not None:
        return False  # it was only starting, and had not yet recorded itself
    orphans = _processes_in(files.cluster)
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # None to be seen while the lock is held: they live in another container, beyond our reach.
    return _wait_until(files.server_is_gone, _IMMEDIATE_STOP_SECONDS if orphans else 0)


def keep(data_dir: Path, keeper_lock_fd: int) -> None:
    """Blocks, without polling, until nobody uses the server; then stops it."""
    files = ServerFiles(data_dir)
    with Lock(files.users_lock) as users, Lock(files.start_lock) as start:
        while True:
            users.exclusive()
            # Let go at once: whoever holds the start lock may be waiting for this one, and we are
            # to wait for his.
            users.unlock()
            start.exclusive()
            if users.try_exclusive():
                break
            start.unlock()
        try:
            stop_server(files)
        finally:
            # Before the start lock goes: the next user must not take us for a keeper that will
            # stay.
            os.close(keeper_lock_fd)


def _serves(pid: int, cluster: Path) -> bool:
    """Whether this process is a server of this cluster. Pids are reused, in containers after every
    restart."""
    if _HAS_PROC:
        try:
            return os.path.samefile(f"/proc/{pid}/cwd", cluster)
        except OSError:
            return False
    seen = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=", "-o", "comm="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return "postgres" in seen and not seen.lstrip().startswith("Z")


def _processes_in(cluster: Path) -> list[int]:
    if not _HAS_PROC:
        return []
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _is_postgres(pid) and _serves(pid, cluster)]


def _is_postgres(pid: int) -> bool:
    """A person's shell may stand in the same folder."""
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
    data_dir, keeper_lock_fd = Path(sys.argv[1]), int(sys.argv[2])
    # It ends by itself right after the last user; ending sooner would leave the server without one
    # who stops it.
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    os.ftruncate(keeper_lock_fd, 0)
    os.write(keeper_lock_fd, f"{os.getpid()}\n".encode())
    # A folder that was deleted under us leaves nothing to keep: PostgreSQL notices the loss and
    # ends by itself.
    with contextlib.suppress(FileNotFoundError):
        keep(data_dir, keeper_lock_fd)


if __name__ == "__main__":
    main()
