"""The embedded PostgreSQL: a real server that lives from its first user to its last.

All processes share one server per data folder. Kernel locks record its users (see
`server_lifetime`), so a killed user is gone at once. Durability stays at PostgreSQL's defaults.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import psycopg

from regente.postgres.binaries import choose_account
from regente.postgres.cluster import (
    ensure_cluster,
    ensure_monitor,
    is_ready,
    prepare_folder,
    server_url,
    socket_was_removed,
    start_server,
)
from regente.postgres.errors import EmbeddedPostgresError, explain, log_tail
from regente.postgres.server_lifetime import (
    Lock,
    ServerFiles,
    end_orphans,
    has_no_users,
    stop_server,
)
from regente.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "default_data_dir"]

# Counted from the server's last log line: crash recovery may take long, and logs its progress.
_SILENCE_SECONDS = 60.0
_START_LOCK_SECONDS = 600.0
_RELEASE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_STARTS = 2

_QUERIES = Queries(Path(__file__).with_name("embedded.sql"))


def default_data_dir() -> Path:
    """The user's data folder; for root /var/lib, since root's home is closed to the server."""
    return Path("/var/lib/regente") if os.geteuid() == 0 else platformdirs.user_data_path("regente")


class EmbeddedPostgres:
    """One use of the server in a data folder; the server runs until every use is released."""

    def __init__(self, data_dir: Path, users: Lock) -> None:
        self._files = ServerFiles(data_dir)
        self._users = users
        self.url = ""

    @classmethod
    def acquire(cls, data_dir: Path) -> EmbeddedPostgres:
        """Block until the server answers; create the cluster and start the server as needed."""
        data_dir = Path(os.path.realpath(data_dir.expanduser()))
        with _clear_errors(data_dir):
            prepare_folder(data_dir)
            files = ServerFiles(data_dir)
            with _start_lock_held(files):
                server = cls(data_dir, Lock(files.users_lock))
                try:
                    server._users.shared()
                    server._start()
                except BaseException:
                    server._release_use()
                    raise
        return server

    @property
    def data_dir(self) -> Path:
        return self._files.data_dir

    @property
    def postmaster_pid(self) -> int | None:
        return self._files.live_postmaster()

    def ensure_running(self) -> None:
        """Restart the server if it died, and wait for it; for a database that does not answer."""
        if self._users.fd < 0:
            raise EmbeddedPostgresError(
                "This use of the embedded server was released: acquire it again."
            )
        with _clear_errors(self.data_dir), _start_lock_held(self._files):
            self._start()

    def release(self) -> None:
        """End this use, and the server if it was the last."""
        if self._users.fd < 0:
            return
        # If the start lock is busy or the folder was deleted, closing is enough: the monitor does
        # the rest.
        with suppress(OSError), Lock(self._files.start_lock) as start:
            if start.exclusive(within_seconds=_RELEASE_SECONDS):
                self._release_use()
        self._users.close()

    def __enter__(self) -> EmbeddedPostgres:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def _release_use(self) -> None:
        self._users.close()
        if has_no_users(self._files):
            stop_server(self._files)

    def _start(self) -> None:
        """Start what is missing, and wait (also for a recovery) until the server answers."""
        files, starts, timeout = self._files, 0, _StartTimeout(self._files.log)
        ensure_monitor(files)
        while not _answers(files):
            if files.server_is_gone():
                if starts == _STARTS:
                    raise explain(
                        f"PostgreSQL does not start in {files.data_dir}.", log_tail(files.log)
                    )
                starts += 1
                account = choose_account(files.cluster)
                ensure_cluster(files, account)
                start_server(files, account)
            elif timeout.expired():
                raise explain(
                    f"PostgreSQL in {files.data_dir} does not answer.", log_tail(files.log)
                )
            elif starts == 0 and files.live_postmaster() is None:
                end_orphans(files)
            elif socket_was_removed(files):
                stop_server(files)
            time.sleep(_POLL_SECONDS)
        ensure_monitor(files)  # the first look may have met one that was just being killed
        self.url = server_url(files)


def _answers(files: ServerFiles) -> bool:
    """True when the server accepts connections; creates the missing database."""
    if not is_ready(files):
        return False
    try:
        with psycopg.connect(
            server_url(files, "postgres"), autocommit=True, connect_timeout=10
        ) as connection:
            if connection.execute(_QUERIES["database_exists"]).fetchone() is None:
                connection.execute(_QUERIES["own_schema"])
                connection.execute(_QUERIES["create_database"])
    except psycopg.OperationalError as error:
        return "too many clients" in str(error)
    return True


@contextmanager
def _start_lock_held(files: ServerFiles) -> Iterator[None]:
    """Hold the start lock: starts and stops happen one at a time, over all processes."""
    with Lock(files.start_lock) as lock:
        if not lock.exclusive(within_seconds=_START_LOCK_SECONDS):
            raise EmbeddedPostgresError(
                f"Another process has been starting or stopping the server in {files.data_dir} for "
                f"{_START_LOCK_SECONDS:.0f} s. Find it with: fuser '{lock.path}'"
            )
        yield


@contextmanager
def _clear_errors(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedPostgresError(
            f"The data folder {data_dir} cannot be used: {error.strerror} ({error.filename}). "
            "Set REGENTE_DATA_DIR to a folder that this user can write, with space left on "
            "its disk, "
            "or REGENTE_DATABASE_URL to a PostgreSQL server of your own."
        ) from error
    except subprocess.SubprocessError as error:
        raise EmbeddedPostgresError(
            f"A program of PostgreSQL failed in {data_dir}: {error}"
        ) from error


class _StartTimeout:
    """A timeout that restarts with every line of the server's log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._size = -1
        self._deadline = 0.0

    def expired(self) -> bool:
        size = self._log.stat().st_size if self._log.exists() else 0
        if size != self._size:
            self._size, self._deadline = size, time.monotonic() + _SILENCE_SECONDS
        return time.monotonic() > self._deadline
