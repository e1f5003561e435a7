"""Processes that use an embedded server, and the folders and users that such tests need."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regente.postgres.server_lifetime import Lock, ServerFiles
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

USER_PROGRAM = Path(__file__).with_name("server_user.py")


def monitor_lives(data_dir: Path) -> bool:
    with Lock(ServerFiles(data_dir).monitor_lock) as lock:
        return not lock.try_exclusive()


def everything_ended(data_dir: Path) -> bool:
    return ServerFiles(data_dir).live_postmaster() is None and not monitor_lives(data_dir)


class ServerUser:
    """A process that uses the server, driven by its standard input."""

    def __init__(self, data_dir: Path, python: str = sys.executable, **options: Any) -> None:
        # As text: another user may not reach the file.
        command = [python, "-c", USER_PROGRAM.read_text(), str(data_dir)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", **options
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def leave(self) -> None:
        self.say("leave")
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            # What was said to a dead process is still in the buffer.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that the server's user can enter when root runs the tests; pytest's is closed."""
    folder = Path(tempfile.mkdtemp(prefix="regente-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    for lock in folder.rglob("start.lock"):
        eventually(partial(everything_ended, lock.parent), within_seconds=30)
    shutil.rmtree(folder)
