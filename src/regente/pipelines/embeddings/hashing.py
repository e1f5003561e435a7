"""`hashing`: a lexical embedder without any model. Texts are near each other when they share words
or parts of words; it knows nothing of meaning. The same text has the same vector in every process
and on every machine: the name stands for this algorithm.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from regente.pipelines.embeddings.contents import Content
from regente.pipelines.embeddings.vectors import Vector, norm_of, vector_of

NAME = "hashing"
DIMENSIONS = 256
GRAMS = (3, 4)
GRAM_WEIGHT = 0.3
_WORDS = re.compile(r"\w+")


class HashingEmbedder:
    """Signed feature hashing of words and their character n-grams, without regard to case and
    accents, to length one."""

    def __init__(self, dimensions: int | None = None) -> None:
        self.dimensions = dimensions or DIMENSIONS

    async def embed(self, contents: Sequence[Content]) -> list[Vector]:
        return await asyncio.to_thread(
            lambda: [hashed(content.text, self.dimensions) for content in contents]
        )


def hashed(text: str, dimensions: int = DIMENSIONS) -> Vector:
    plain = _without_accents(text.casefold())
    sums = [0.0] * dimensions
    for word, count in Counter(_WORDS.findall(plain) or [plain]).items():
        for number, weight in _features(word):
            sums[number % dimensions] += weight * count
    norm = norm_of(sums)
    if norm == 0:  # every feature met its opposite
        sums[_number(text)[0] % dimensions], norm = 1.0, 1.0
    return vector_of(value / norm for value in sums)


def _without_accents(text: str) -> str:
    return "".join(
        char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char)
    )


@lru_cache(maxsize=50_000)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """The features of a word, itself and its n-grams, as positions in the vector and weights."""
    return tuple(_weighed(word))


def _weighed(word: str) -> Iterator[tuple[int, float]]:
    number, sign = _number(f"w:{word}")
    yield number, sign
    marked = f"<{word}>"
    for size in GRAMS:
        for start in range(max(0, len(marked) - size + 1)):
            number, sign = _number(f"g:{marked[start : start + size]}")
            yield number, sign * GRAM_WEIGHT


def _number(feature: str) -> tuple[int, float]:
    digest = int.from_bytes(
        hashlib.blake2b(feature.encode("utf-8", "backslashreplace"), digest_size=8).digest(),
        "little",
    )
    return digest >> 1, 1.0 if digest & 1 else -1.0
