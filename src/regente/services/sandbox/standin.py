"""`Standin`: a stand-in for a service of others that costs money or is not ours to load: real HTTP,
the same answers for the same seed.

The sandbox serves each below its prefix. The stand-ins of a pipeline are in its folder.
"""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter


class Standin(Protocol):
    prefix: str
    """The path prefix under which it is served, like `/league`."""
    calls: dict[str, int]
    """How often each of its routes was called: what a caller paid for. Shown at `/standins`."""

    def router(self) -> APIRouter:
        """Its routes, without the prefix."""

    def reset(self) -> None:
        """Remove all faults and set all counts to zero."""
