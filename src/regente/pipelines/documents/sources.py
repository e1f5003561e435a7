"""Lists and reads the plain files of a folder, and nothing outside of it."""

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
    """A submitted file, with `content` if runners cannot read the folder."""

    code: str
    size_bytes: int
    content: Callable[[], bytes] | None = None


def documents_in(folder: Path) -> tuple[str, list[NewDocument]]:
    """The folder's real path, and its plain files by path, without hidden files and links."""
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
                f"{folder} has more than {MAX_DOCUMENTS:,} files, the maximum of an execution"
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
                f"{one.code!r:.100} is not a document's name: use 1 to {MAX_CODE_CHARACTERS} "
                "characters of UTF-8"
            )
        if one.code in seen:
            raise InvalidInput(f"two documents have the name {one.code!r}")
        seen.add(one.code)
    return documents


def with_contents(folder: Path, documents: list[NewDocument], max_bytes: int) -> list[NewDocument]:
    """The documents with their contents, except those that are too large."""
    return [
        replace(one, content=(folder / one.code).read_bytes) if one.size_bytes <= max_bytes else one
        for one in documents
    ]


def folder_below(root: Path | None, folder: Path) -> Path:
    """The folder's path, if it is below the root that HTTP clients may use."""
    if root is None:
        raise InvalidInput(
            "folders are not allowed over HTTP: REGENTE_DOCUMENTS_ROOT is not set",
            code="FOLDERS_CLOSED",
        )
    place = (root / folder).resolve()
    if not place.is_relative_to(root.resolve()):
        raise InvalidInput(f"{folder} is not below REGENTE_DOCUMENTS_ROOT")
    return place


def read_below(folder: str, code: str, max_bytes: int) -> bytes:
    """The file's content, up to one byte more than the limit. A missing file is `Transient`."""
    path = Path(folder, code)
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise Fatal(f"{code} is not in {folder}", code="FILE_OUTSIDE")
    try:
        # Non-blocking: a pipe in the file's place would block the thread forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise Transient(
            f"{path} does not exist: it was moved, or this runner cannot read the folder",
            code="FILE_MISSING",
        ) from None
    except OSError as error:
        raise Transient(
            f"{path} cannot be opened: {error.strerror}", code="FILE_UNREADABLE"
        ) from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Transient(f"{path} is no longer a plain file", code="FILE_UNREADABLE")
        try:
            return file.read(max_bytes + 1)
        except OSError as error:
            raise Transient(
                f"{path} cannot be read: {error.strerror}", code="FILE_UNREADABLE"
            ) from None


def _refuse(error: OSError) -> None:
    raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}")
