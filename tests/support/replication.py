"""A primary and its standby, from the embedded server's programs, on sockets in a folder of /tmp.

The servers run as the account of the embedded one: our own, or for root one without rights.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.conninfo import make_conninfo

from regente.postgres.binaries import (
    MAJOR_VERSION,
    Account,
    choose_account,
    server_environment,
    shell_safe,
    within_reach,
)
from regente.postgres.server_lifetime import _processes_in
from tests.support.eventually import eventually
from tests.support.postgres_servers import require_postgres

_USER = "regente"
# What is killed are processes: the operating system keeps what they wrote.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "150",
    "wal_keep_size": "512MB",
    "autovacuum_naptime": "5s",
    "wal_retrieve_retry_interval": "200ms",
}


class Node:
    """One server: its folder, and the process while it runs."""

    def __init__(self, name: str, folder: Path, programs: Path, account: Account) -> None:
        self.name = name
        self.data = folder / f"{name}-data"
        self.socket = folder / name
        self._log = folder / f"{name}.log"
        self._programs = programs
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return make_conninfo("", host=str(self.socket), port=5432, user=_USER, dbname="postgres")

    def create(self) -> None:
        trusting = ["-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._prepare()
        self._run("initdb", "-D", self.data, *trusting)

    def copy(self, primary: Node) -> None:
        """Become a standby of that server, with nothing of one's own left."""
        shutil.rmtree(self.data, ignore_errors=True)
        self._prepare()
        address = f"host={primary.socket} port=5432 user={_USER} application_name={self.name}"
        self._run("pg_basebackup", "-D", self.data, "-R", "-c", "fast", "--no-sync", "-d", address)

    def start(self) -> None:
        settings = _SETTINGS | {"unix_socket_directories": str(self.socket)}
        given = [f"-c{name}={value}" for name, value in settings.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data), *given],
                cwd="/",
                env=server_environment(),
                stdout=log,
                stderr=log,
                **self._account.switch,
            )
        eventually(self.answers, within_seconds=30)

    def kill(self) -> None:
        """SIGKILL for the server and its sessions: none of them may still answer afterwards."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(30)
        self._process = None

        def all_gone() -> bool:
            left = _processes_in(self.data)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        eventually(all_gone, within_seconds=30)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True, application_name="test") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(self.execute("SELECT true"))
        return False

    def set(self, name: str, value: str) -> None:
        self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

        def is_set() -> bool:
            return self.execute(f"SHOW {name}") == [(value,)]

        eventually(is_set, within_seconds=10)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:] if self._log.exists() else ""

    def _prepare(self) -> None:
        for part in (self.data, self.socket):
            part.mkdir(mode=0o700, exist_ok=True)
            self._account.chown(part)
        for stale in self.socket.iterdir():
            stale.unlink()

    def _run(self, program: str, *words: str | Path) -> None:
        with shell_safe(self._programs) as here:
            subprocess.run(
                [str(here / program), *map(str, words)],
                cwd="/",
                env=server_environment(),
                check=True,
                timeout=120,
                stdout=subprocess.DEVNULL,
                **self._account.switch,
            )


class Pair:
    """Two servers; one is the primary, and the other its standby while it runs."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        account = choose_account(folder / "none")
        programs = within_reach(require_postgres(MAJOR_VERSION), account, folder)
        self.primary, self.standby = (Node(name, folder, programs, account) for name in "ab")
        self._synchronous = synchronous
        self._generations = itertools.count(1)
        # Always the same order: the first is often the dead one.
        hosts = f"{self.primary.socket},{self.standby.socket}"
        self.url = make_conninfo("", host=hosts, port="5432,5432", user=_USER, dbname="postgres")

    def __enter__(self) -> Self:
        self.primary.create()
        self.primary.start()
        self.attach()
        return self

    def __exit__(self, *_: object) -> None:
        for node in (self.primary, self.standby):
            node.kill()

    def attach(self) -> None:
        """Make the other server a standby of the primary."""
        self.standby.copy(self.primary)
        self.standby.start()
        eventually(lambda: self.replication() is not None, within_seconds=30)
        if self._synchronous:
            self.primary.set("synchronous_standby_names", "*")
            eventually(lambda: self.replication() == "sync", within_seconds=30)

    def replication(self) -> str | None:
        """How the standby follows: `sync`, `async`, or not at all."""
        rows = self.primary.execute(
            "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming' "
            f"AND application_name = '{self.standby.name}'"
        )
        return rows[0][0] if rows else None

    def kill_primary(self) -> None:
        self.primary.kill()

    def promote(self) -> None:
        """The standby becomes the primary, and works alone."""
        if self._synchronous:
            self.standby.set("synchronous_standby_names", "")
        self.standby.execute("SELECT pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary

    def fail_over(self) -> None:
        self.kill_primary()
        self.promote()

    def cut_replication(self) -> None:
        """From now on the standby gets nothing of what the primary commits."""
        self.standby.set("primary_conninfo", "host=/nowhere")
        eventually(lambda: self.replication() is None, within_seconds=30)


@contextlib.contextmanager
def replicated(*, synchronous: bool) -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="regente-pair-", dir="/tmp"))
    folder.chmod(0o755)  # the servers of a root user run as another one
    try:
        with Pair(folder, synchronous=synchronous) as pair:
            yield pair
    finally:
        shutil.rmtree(folder, ignore_errors=True)
