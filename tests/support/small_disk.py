"""A PostgreSQL server on small disks, for tests that fill them.

The disks are mounted in a namespace of their own, which vanishes with its last process: by root, or
by an ordinary user where the system lets users have namespaces.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runner_process import ROOT

AS_ROOT = ["unshare", "--mount"]
AS_USER = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]


class SmallDisks:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.url = f"postgresql://regente@/postgres?host={folder / 'socket'}&port=5432"
        assert self._answer() == "ready"

    def fill(self, disk: str) -> None:
        """Until nothing fits: `data`, `wal` or `log`."""
        assert "No space left" in self._ask(f"fill {disk}")

    def free(self, disk: str) -> None:
        assert self._ask(f"free {disk}") == "freed"

    def start(self) -> None:
        """Start the server after it has died."""
        assert self._ask("start") == "started"

    def said(self) -> str:
        """The server's log."""
        return self._ask("said")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextlib.contextmanager
def small_disks() -> Iterator[SmallDisks]:
    namespace = AS_ROOT if os.geteuid() == 0 else AS_USER
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets only root mount a small disk (no user namespaces)")
    with tempfile.TemporaryDirectory(prefix="regente-disks-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with subprocess.Popen(
            [*namespace, sys.executable, "-m", "tests.support.small_disk_server", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield SmallDisks(process, folder)
            finally:
                process.communicate("leave\n", timeout=60)
