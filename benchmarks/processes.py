"""Starts the peer programs and reads their messages."""

import json
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.environments import Environment

ROOT = Path(__file__).resolve().parent.parent
COMMAND_SECONDS = 900.0
STOP_SECONDS = 20.0


class PeerFailedError(RuntimeError):
    """A peer program ended early or sent an unexpected message."""


def command(environment: Environment, *arguments: str) -> dict[str, Any]:
    """Run one command of a peer program to its end and return its last message."""
    finished = subprocess.run(
        [*environment.program, *arguments],
        cwd=ROOT,
        env=environment.variables(),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode != 0 or not lines:
        raise PeerFailedError(f"{arguments[0]} failed: {finished.stderr.strip()[-2000:]}")
    message: dict[str, Any] = json.loads(lines[-1])
    return message


@dataclass(slots=True)
class Worker:
    """One running worker process."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, environment: Environment, url: str, kind: str, counters: Path) -> Self:
        return cls(
            subprocess.Popen(
                [*environment.program, "work", url, kind],
                cwd=ROOT,
                env=environment.variables() | {"BENCH_COUNTERS": str(counters)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def expect(self, event: str) -> dict[str, Any]:
        """Return the next message of that kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                message: dict[str, Any] = json.loads(line)
                if message.get("event") == event:
                    return message
        raise PeerFailedError(f"the worker ended before it said {event!r}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def stop(self) -> dict[str, Any]:
        """Close its stdin, which ends it, and return its last message."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.expect("stopped")
        finally:
            self.process.wait(timeout=STOP_SECONDS)

    def kill(self) -> None:
        """End the process with its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True)
class Crew:
    """The workers of one measurement and their counter files."""

    workers: list[Worker]
    counters: Path
    started_ns: int = 0

    def handled(self) -> int:
        total = 0
        for path in self.counters.iterdir():
            with suppress(struct.error):
                total += struct.unpack("<q", path.read_bytes())[0]
        return total

    def go(self) -> None:
        """Start all workers; the measurement begins with the first claim of any."""
        for worker in self.workers:
            worker.go()
        self.started_ns = min(worker.expect("started")["ns"] for worker in self.workers)

    def wait_until_handled(self, count: int, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while self.handled() < count:
            self.check()
            if time.monotonic() > deadline:
                raise PeerFailedError(
                    f"only {self.handled()} of {count} tasks in {timeout_seconds:.0f} s"
                )
            time.sleep(0.002)

    def check(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is not None:
                raise PeerFailedError(f"a worker ended with {worker.process.returncode}")

    def stop(self) -> list[dict[str, Any]]:
        return [worker.stop() for worker in self.workers]


@contextmanager
def crew(environment: Environment, url: str, kind: str, *, size: int = 1) -> Iterator[Crew]:
    """Yield workers that are connected and wait for `go`; all are ended after the block."""
    with tempfile.TemporaryDirectory(prefix="bench-counters-") as counters:
        workers = [Worker.start(environment, url, kind, Path(counters)) for _ in range(size)]
        try:
            for worker in workers:
                worker.expect("ready")
            yield Crew(workers, Path(counters))
        finally:
            for worker in workers:
                worker.kill()


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise PeerFailedError(f"no memory figure for process {pid}")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
