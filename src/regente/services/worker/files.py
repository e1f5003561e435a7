"""Atomic, durable file replacement, and the lock on a worker's folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: after a crash the path holds either the old or the new content."""
    aside = path.with_name(f".{path.name}.new")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderLock:
    """An exclusive lock on the folder, held until `close` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = (folder / "worker.lock").open("wb")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise OSError(f"another worker uses {folder}") from None

    def close(self) -> None:
        self._file.close()
