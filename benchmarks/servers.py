"""The measured servers: temporary PostgreSQL and Redis with default settings.

PostgreSQL comes from the wheel that Regente embeds. Nothing is tuned: `fsync`,
`synchronous_commit` and `full_page_writes` stay on. Every client connects through a unix socket.
"""

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql
from scripts import debian

from regente.postgres.binaries import choose_account, programs_for, server_environment

START_SECONDS = 30.0
REPORTED_SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
)


@dataclass(slots=True)
class PostgresServer:
    """A fresh cluster in a temporary directory, removed on exit."""

    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bench-pg-")))
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        account = choose_account(self.directory / "data")
        self.directory.chmod(0o755)
        account.chown(self.directory)
        programs, data = programs_for(account, self.directory), self.directory / "data"
        options: dict[str, Any] = {"cwd": "/", "env": server_environment(), **account.switch}
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            **options,
        )
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", self.directory, "-h", ""],
                stdout=log,
                stderr=log,
                **options,
            )
        self._wait_until_up()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=60)
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(database), autocommit=True)

    def fresh_database(self, name: str) -> str:
        """Drop and create the database, and return its URL."""
        with self.connect() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def settle(self, database: str) -> None:
        """Run VACUUM ANALYZE and a checkpoint, so that measurements do not affect the next."""
        with self.connect(database) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    @contextmanager
    def without_autovacuum(self) -> Iterator[None]:
        """Switch autovacuum off during the block: its transactions would be counted."""
        try:
            self._set_autovacuum("off")
            yield
        finally:
            self._set_autovacuum("on")

    def _set_autovacuum(self, state: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL("ALTER SYSTEM SET autovacuum = {}").format(sql.SQL(state)))
            connection.execute("SELECT pg_reload_conf()")

    def transactions(self, database: str) -> int:
        """Commits and rollbacks of that database, read from another database so as not to count."""
        with self.connect() as connection:
            row = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s",
                [database],
            ).fetchone()
        assert row is not None
        return int(str(row[0]))

    def updates(self, database: str) -> int:
        """Rows updated in that database so far."""
        with self.connect(database) as connection:
            row = connection.execute(
                "SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables"
            ).fetchone()
        assert row is not None
        return int(str(row[0]))

    def settings(self) -> dict[str, str]:
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)",
                [list(REPORTED_SETTINGS)],
            ).fetchall()
            version = connection.execute("SHOW server_version").fetchone()
        assert version is not None
        return {"server_version": str(version[0])} | {str(name): str(value) for name, value in rows}

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError), self.connect():
                return
            time.sleep(0.05)
        raise TimeoutError(f"PostgreSQL did not start; see {self.directory / 'log'}")


@dataclass(slots=True)
class RedisServer:
    """Redis with its default settings: snapshots, no append-only file."""

    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bench-redis-")))
    process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def is_installed() -> bool:
        """Installed now, if it is not there yet and can be."""
        if not shutil.which("redis-server"):
            debian.install("redis-server", "for Celery")
        return shutil.which("redis-server") is not None

    @property
    def socket_path(self) -> Path:
        return self.directory / "redis.sock"

    @property
    def url(self) -> str:
        return f"redis+socket://{self.socket_path}"

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                self.socket_path,
                "--dir",
                self.directory,
            ],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.socket_path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"Redis did not start for {getpass.getuser()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, command: str) -> str:
        """Send one inline command and return its short reply."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket_path))
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(4096).decode().strip()

    def version(self) -> str:
        output = subprocess.run(
            ["redis-server", "--version"], check=True, capture_output=True, text=True
        ).stdout
        return output.split("v=")[1].split()[0]
