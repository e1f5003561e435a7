"""Vectors as 32-bit floats, and the checks that each must pass before it is stored."""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from regente.engine.errors import Transient

Vector: TypeAlias = "array[float]"
"""Of 32-bit floats."""
MAX_DIMENSIONS = 16_000


class BadVector(Transient):
    """The provider's answer has an invalid vector; a retry may succeed."""

    code = "BAD_VECTOR"


def vector_of(values: Iterable[float]) -> Vector:
    return array("f", values)


def vector_from_base64(text: str) -> Vector:
    """A vector from base64 of little-endian 32-bit floats."""
    vector = array("f")
    try:
        vector.frombytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadVector(
            f"the provider's answer has a vector that is not base64 of 32-bit floats: {error}"
        ) from None
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def norm_of(vector: Sequence[float]) -> float:
    return math.hypot(*vector)


def check_vectors(vectors: Iterable[Vector], dimensions: int | None) -> int:
    """Check that all vectors are finite, not zero and of equal dimensions, which are returned."""
    for number, vector in enumerate(vectors):
        found = len(vector)
        dimensions = dimensions or found
        if found != dimensions or not 0 < found <= MAX_DIMENSIONS:
            raise BadVector(
                f"vector {number} has {found:,} dimensions instead of {dimensions:,}",
                code="WRONG_DIMENSIONS",
            )
        norm = norm_of(vector)
        if not math.isfinite(norm):
            raise BadVector(f"vector {number} has values that are not numbers")
        if norm == 0 or norm > 1e18:
            raise BadVector(f"vector {number} has the invalid length {norm:g}")
    assert dimensions is not None, "there is at least one vector"
    return dimensions


def literal(vector: Vector) -> str:
    """The vector as a literal of real[]."""
    return "{" + ",".join(map(repr, vector)) + "}"
