"""Storage of results: written as they arrive, readable only once they are complete."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from regente.services.worker.files import sync_folder
from regente.services.worker.source import Ad

_PIECE_BYTES = 262_144
_HEAD = b'{"ads":['
_TAIL_MARK = b"\n],"
_MAX_TAIL_BYTES = 65_536
_JOB_ID = re.compile(r"^[a-z]+_[0-9a-f]{8,32}$")


@dataclass(frozen=True, slots=True)
class StoredResults:
    """A complete results file: its size, and where the array of ads begins and ends."""

    size: int
    ads_start: int
    ads_stop: int
    summary: dict[str, Any]


class ResultsDraft(Protocol):
    """Unpublished results. Methods raise `OSError` when the results cannot be stored."""

    def add(self, ads: Sequence[Ad]) -> None: ...

    async def publish(self, summary: dict[str, Any]) -> None: ...

    def discard(self) -> None: ...


class Storage(Protocol):
    def draft(self, job_id: str) -> ResultsDraft: ...

    def find(self, job_id: str) -> StoredResults | None:
        """Return the results if they are complete."""
        ...

    def read(self, job_id: str, start: int, stop: int) -> AsyncIterator[bytes]: ...

    def remove(self, job_ids: Iterable[str]) -> None: ...

    def discard_drafts(self) -> None:
        """Delete drafts that a crashed worker left."""
        ...


class FolderStorage:
    """Results in `{folder}/{job_id}/{job_id}_results.json`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def draft(self, job_id: str) -> FileDraft:
        return FileDraft(self._path(job_id))

    def find(self, job_id: str) -> StoredResults | None:
        try:
            with self._path(job_id).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MAX_TAIL_BYTES))
                tail = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        mark = tail.rindex(_TAIL_MARK)
        summary = msgspec.json.decode(b"{" + tail[mark + len(_TAIL_MARK) :], type=dict[str, Any])
        return StoredResults(size, len(_HEAD) - 1, size - len(tail) + mark + 2, summary)

    async def read(self, job_id: str, start: int, stop: int) -> AsyncIterator[bytes]:
        with self._path(job_id).open("rb") as file:
            file.seek(start)
            left = stop - start
            while left and (piece := await asyncio.to_thread(file.read, min(left, _PIECE_BYTES))):
                left -= len(piece)
                yield piece

    def remove(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            shutil.rmtree(self._path(job_id).parent, ignore_errors=True)

    def discard_drafts(self) -> None:
        for path in self._folder.glob(f"*/.*{FileDraft.SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, job_id: str) -> Path:
        if not _JOB_ID.match(job_id):
            raise FileNotFoundError(f"{job_id!r} is not a job id")
        return self._folder / job_id / f"{job_id}_results.json"


class FileDraft:
    SUFFIX = ".partial"

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = path.with_name(f".{path.name}{self.SUFFIX}")
        self._file: BinaryIO = self._partial.open("wb", buffering=_PIECE_BYTES)
        self._file.write(_HEAD)
        self._separator = b"\n"

    def add(self, ads: Sequence[Ad]) -> None:
        for ad in ads:
            self._file.write(self._separator)
            self._file.write(msgspec.json.encode(ad))
            self._separator = b",\n"

    async def publish(self, summary: dict[str, Any]) -> None:
        self._file.write(_TAIL_MARK + msgspec.json.encode(summary)[1:] + b"\n")
        await asyncio.to_thread(self._finish)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)
            self._path.parent.rmdir()

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)
        sync_folder(self._path.parent)
        sync_folder(self._path.parent.parent)
