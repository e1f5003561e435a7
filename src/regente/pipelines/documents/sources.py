"""Files: which ones a folder holds, and what is in one of them. Only plain files, and only inside
the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from regente.engine.codec import is_storable
from regente.engine.errors import Fatal, InvalidInput, Transient
from regente.pipelines.documents.models import MAX_CODE_CHARACTERS, MAX_DOCUMENTS

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A file that is handed in; `content` when it is to be stored, for runners that cannot reach
    the file."""

    code: str
    size_bytes: int
    content: Callable[[], bytes] | None = None


def documents_in(folder: Path) -> tuple[str, list[NewDocument]]:
    """Where the folder really is, and every plain file below the folder, hidden ones and links
    aside, by their paths."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder")
    found: list[NewDocument] = []
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(place, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append(NewDocument(str(path.relative_to(folder)), status.st_size))
        if len(found) > MAX_DOCUMENTS:
            raise InvalidInput(
                f"{folder} holds more than {MAX_DOCUMENTS:,} files: an execution takes no more"
            )
    return str(folder.resolve()), found


def checked(documents: list[NewDocument]) -> list[NewDocument]:
    if not 0 < len(documents) <= MAX_DOCUMENTS:
        raise InvalidInput(
            f"an execution has 1 to {MAX_DOCUMENTS:,} documents, not {len(documents):,}"
        )
    seen: set[str] = set()
    for one in documents:
        if not 0 < len(one.code) <= MAX_CODE_CHARACTERS or not is_storable(one.code):
            raise InvalidInput(
                f"{one.code!r:.100} cannot name a document: 1 to {MAX_CODE_CHARACTERS} "
                "characters of UTF-8"
            )
        if one.code in seen:
            raise InvalidInput(f"two documents are called {one.code!r}")
        seen.add(one.code)
    return documents


def with_contents(folder: Path, documents: list[NewDocument], max_bytes: int) -> list[NewDocument]:
    """To be stored; those that would be skipped for their size go without."""
    return [
        replace(one, content=(folder / one.code).read_bytes) if one.size_bytes <= max_bytes else one
        for one in documents
    ]


def folder_below(root: Path | None, folder: Path) -> Path:
    """The folder, if it lies below the one that may be used from afar."""
    if root is None:
        raise InvalidInput(
            "no folder may be named over HTTP: REGENTE_DOCUMENTS_ROOT is not set",
            code="FOLDERS_CLOSED",
        )
    place = (root / folder).resolve()
    if not place.is_relative_to(root.resolve()):
        raise InvalidInput(f"{folder} does not lie in the folder that may be used")
    return place


def read_below(folder: str, code: str, max_bytes: int) -> bytes:
    """The file's content, one byte more than the limit at most. What is not there now may be there
    at the next attempt."""
    path = Path(folder, code)
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise Fatal(f"{code} does not lie in {folder}", code="FILE_OUTSIDE")
    try:
        # Not blocking: a pipe that took the file's place would hold the thread for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise Transient(
            f"{path} is not there: it was moved, or this runner cannot reach it",
            code="FILE_MISSING",
        ) from None
    except OSError as error:
        raise Transient(
            f"{path} cannot be opened: {error.strerror}", code="FILE_UNREADABLE"
        ) from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Transient(f"{path} is not a plain file any more", code="FILE_UNREADABLE")
        try:
            return file.read(max_bytes + 1)
        except OSError as error:
            raise Transient(
                f"{path} cannot be read: {error.strerror}", code="FILE_UNREADABLE"
            ) from None


def _refuse(error: OSError) -> None:
    raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}")
