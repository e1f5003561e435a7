"""Normalises texts and hashes their contents."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from regente.engine.codec import is_storable
from regente.engine.errors import InvalidInput

MAX_TEXT_CHARACTERS = 32_000


@dataclass(frozen=True, slots=True)
class Content:
    hash: str
    text: str


def normalised(text: str) -> str:
    """The text in NFC with single spaces and none at its ends. Case is kept."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def checked_text(text: str, what: str) -> str:
    """The normalised text; raises `InvalidInput` if it cannot be embedded."""
    if not is_storable(text):
        raise InvalidInput(
            f"{what} has a character that cannot be stored (NUL, or half of a surrogate pair)"
        )
    ready = normalised(text)
    if not ready:
        raise InvalidInput(f"{what} is empty: there is nothing to embed")
    if len(ready) > MAX_TEXT_CHARACTERS:
        raise InvalidInput(
            f"{what} has {len(ready):,} characters; at most {MAX_TEXT_CHARACTERS:,} are "
            "embedded in one piece"
        )
    return ready


def content_of(model: str, text: str) -> Content:
    ready = normalised(text)
    return Content(hashlib.sha256(f"{model}\0{ready}".encode()).hexdigest(), ready)


def distinct(model: str, texts: Iterable[str]) -> list[Content]:
    """The distinct contents, in order."""
    return list(
        {content.hash: content for content in (content_of(model, text) for text in texts)}.values()
    )


def joint_key(contents: Iterable[Content]) -> str:
    """The idempotency key of a call with these contents."""
    joined = "".join(content.hash for content in contents)
    return f"regente-{hashlib.sha256(joined.encode()).hexdigest()}"
