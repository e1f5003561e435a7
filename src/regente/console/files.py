"""The built files in memory, with compressed copies."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    media_type: str
    body: bytes
    gzipped: bytes
    etag: str


def load(folder: Path = FOLDER) -> dict[str, File]:
    """Files by path from the console's root; empty when the console was not built."""
    if not (folder / INDEX).is_file():
        return {}
    return {
        path.relative_to(folder).as_posix(): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def from_bytes(body: bytes, media_type: str) -> File:
    return File(
        media_type, body, gzip.compress(body, mtime=0), f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    )


def _file(path: Path) -> File:
    kind = (
        _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    )
    return from_bytes(path.read_bytes(), kind)
