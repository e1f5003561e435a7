"""Extracts a file's text. A file that can never be read raises `Skip` with the reason."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from regente.engine.errors import Skip

SNIFFED_BYTES = 1024
MIN_CHARACTERS = 10
_BLANKS = re.compile(r"[^\S\n]+")
_GAPS = re.compile(r"\n\s*\n+")
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"II*\x00": "TIFF",
    b"MM\x00*": "TIFF",
    b"BM": "BMP",
}


class FileKind(StrEnum):
    PDF = "pdf"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Extracted:
    kind: str
    sha256: str
    pages: int | None
    text: str


def skipped(code: str, reason: str) -> Skip:
    return Skip(reason, code=code, details={"code": code})


def kind_of(content: bytes) -> FileKind:
    """The kind of file, by its content."""
    start = content[:SNIFFED_BYTES]
    if not content.strip():
        raise skipped("EMPTY", "the file is empty")
    if b"%PDF-" in start:
        return FileKind.PDF
    image = next((name for mark, name in _IMAGES.items() if start.startswith(mark)), None)
    if image is None and start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        image = "WebP"
    if image is not None:
        raise skipped("IMAGE", f"a {image} image has no text")
    if b"\x00" in content:
        raise skipped("UNSUPPORTED", "neither a PDF nor a text")
    return FileKind.TEXT


def plain_text(content: bytes, max_characters: int) -> Extracted:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    return extracted(FileKind.TEXT, content, None, text[: 4 * max_characters], max_characters)


def extracted(
    kind: FileKind, content: bytes, pages: int | None, raw: str, max_characters: int
) -> Extracted:
    text = _GAPS.sub("\n\n", _BLANKS.sub(" ", _storable(raw))).strip()[:max_characters]
    if len(text) < MIN_CHARACTERS:
        what = (
            f"the PDF's {pages:,} pages have no text: they may be scanned"
            if pages
            else "the file has almost no text"
        )
        raise skipped("NO_TEXT", what)
    return Extracted(kind.value, hashlib.sha256(content).hexdigest(), pages, text)


def _storable(text: str) -> str:
    """The text without NUL, control characters and unpaired surrogates."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "ignore").decode("utf-8")
    return "".join(sign for sign in plain if sign >= " " or sign in "\n\t")
