"""A server whose data, WAL and log are each on a small disk of their own, which can be filled.

python -m tests.support.small_disk_server FOLDER    in a mount namespace of its own

It obeys lines on its standard input (`fill DISK`, `free DISK`, `start`, `said`, `leave`), and
answers with a line.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from regente.postgres.binaries import (
    Account,
    choose_account,
    server_environment,
    shell_safe,
    within_reach,
)
from tests.support.eventually import eventually
from tests.support.postgres_servers import require_postgres

MAJOR = 16
DISKS = {"data": "160m", "wal": "24m", "log": "1m"}
SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "16MB",
    "min_wal_size": "2MB",
    "max_wal_size": "8MB",
    "restart_after_crash": "off",  # the test is the service manager
}


class SmallDiskServer:
    def __init__(self, folder: Path) -> None:
        self._account: Account = choose_account(folder / "none")
        self._folder = folder
        self._programs = within_reach(require_postgres(MAJOR), self._account, folder)
        for name, size in DISKS.items():
            mount_tmpfs(folder / name, size)
        for place in (*(folder / name / "pg" for name in DISKS), folder / "socket"):
            place.mkdir(mode=0o700)
            self._account.chown(place)
        self._run(
            "initdb",
            "-D",
            self._data,
            "-X",
            folder / "wal" / "pg",
            "--wal-segsize=1",
            "-U",
            "regente",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data" / "pg"

    def start(self) -> str:
        settings = {**SETTINGS, "unix_socket_directories": self._folder / "socket"}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = self._folder / "log" / "pg" / "log"
        start = ("pg_ctl", "-D", self._data, "-l", log, "-w", "-o", options, "start")
        # The processes of a server that has just died may not all have ended.
        eventually(lambda: self._run(*start) == 0)
        return "started"

    def fill(self, disk: str) -> str:
        with open(self._folder / disk / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(65_536)):
                    pass
            except OSError as error:
                return str(error)
        raise AssertionError("unreachable")

    def free(self, disk: str) -> str:
        (self._folder / disk / "filler").unlink()
        return "freed"

    def said(self) -> str:
        """The server's log, on one line."""
        return repr((self._folder / "log" / "pg" / "log").read_text(errors="replace"))

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *words: str | Path) -> int:
        with shell_safe(self._programs) as programs:
            done = subprocess.run(
                [str(programs / program), *map(str, words)],
                cwd="/",
                env=server_environment(),
                check=False,
                stdout=subprocess.DEVNULL,
                **self._account.switch,
            )
        return done.returncode


def mount_tmpfs(folder: Path, size: str) -> None:
    """By the system call: the program `mount` does this for root only."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=0755".encode()):
        raise OSError(ctypes.get_errno(), f"mounting {folder}")


def main() -> None:
    server = SmallDiskServer(Path(sys.argv[1]))
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            word, *disks = line.split()
            if word == "leave":
                break
            print(getattr(server, word)(*disks), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
