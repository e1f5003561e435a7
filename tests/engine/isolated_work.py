"""Functions for isolated steps: a child process imports this module by its name."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import regente
from regente import Blocked, Fatal, Skip, Throttled, Transient


@dataclass(frozen=True)
class Parsed:
    title: str
    pages: int


class Parser:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def double(self, number: int) -> int:
        return number * self.factor

    @staticmethod
    def triple(number: int) -> int:
        return number * 3


class Unpicklable:
    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle this")


def add(a: int, b: int = 1) -> int:
    return a + b


def pid() -> int:
    return os.getpid()


_counted: list[int] = []


def count_up() -> int:
    _counted.append(1)
    return len(_counted)


def parent() -> int:
    return os.getppid()


def parsed(title: str) -> Parsed:
    return Parsed(title, 3)


async def added_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def noisy() -> str:
    print("to stdout", flush=True)
    os.write(1, b"\x00\x00 raw bytes to file descriptor 1")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    print("to stderr", file=sys.stderr)
    return "quiet"


def raise_error(name: str) -> NoReturn:
    errors: dict[str, BaseException] = {
        "Transient": Transient("t", code="T1", details={"a": 1}),
        "Blocked": Blocked("b"),
        "Throttled": Throttled("slow", retry_after=1234),
        "Fatal": Fatal("f", code="F1", details={"b": [2]}),
        "Skip": Skip("s"),
        "ValueError": ValueError("v\x00\ud800"),
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
    }
    raise errors[name]


def segfault() -> None:
    ctypes.string_at(0)


def exit_hard(code: int) -> None:
    os._exit(code)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat_memory() -> int:
    hoard = bytearray(2 * 1024 * 1024 * 1024)
    return len(hoard)


def not_json() -> Any:
    return object()


def large() -> str:
    return "x" * (65 * 1024 * 1024)


def sleep_forever(pid_file: str) -> None:
    """Writes its process id and that of its child, then blocks."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    path = Path(pid_file)
    path.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}", "utf-8")
    path.with_suffix(".new").rename(path)
    signal.pause()


def environment() -> dict[str, str]:
    return dict(os.environ)


def beat_until_there(path: str) -> str:
    """Sends heartbeats until the file exists."""
    while not Path(path).exists():
        regente.heartbeat()
        time.sleep(0.01)
    return "done"
