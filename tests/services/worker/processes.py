"""`regente worker` as a separate process, which a test can kill."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.worker.conftest import QUICK


class WorkerProcess:
    def __init__(
        self, data_dir: Path, target: str, max_file_bytes: int | None = None, **settings: Any
    ) -> None:
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("REGENTE_")
        }
        given = {
            f"REGENTE_WORKER_{name.upper()}": str(value)
            for name, value in (QUICK | settings).items()
            if value is not None
        }
        words = ["worker", "--json", "--port", "0", "--data-dir", str(data_dir), "--target", target]
        self.log = data_dir.with_suffix(".log")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "regente", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env=clean | given,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        self.announced: dict[str, str] = json.loads(line)
        if max_file_bytes:  # writing past this fails, as on a full disk
            resource.prlimit(
                self._process.pid, resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes)
            )

    @property
    def url(self) -> str:
        return self.announced["url"]

    def peak_bytes(self) -> int:
        found = re.search(
            r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self._process.pid}/status").read_text()
        )
        assert found is not None
        return int(found[1]) * 1024

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        self._process.send_signal(sign)
        code = self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


@contextmanager
def worker_process(data_dir: Path, target: str, **options: Any) -> Iterator[WorkerProcess]:
    process = WorkerProcess(data_dir, target, **options)
    try:
        yield process
    finally:
        if process.alive:
            process.kill()
