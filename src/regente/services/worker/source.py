"""The interface for a source of ads. The worker reads page by page and owns retries and storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regente.contracts.worker import Cause, Filters, Problem, ProxyAddress

Ad = dict[str, Any]
"""One ad; `id` is required and identifies it."""


class SourceFailed(Exception):
    """The target, the proxy or the page failed; `transient`: the same request may succeed later."""

    def __init__(
        self,
        cause: Cause,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            cause=cause, message=message[:2000], http_status=http_status, retry_after=retry_after
        )
        self.transient = transient
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Page:
    ads: Sequence[Ad]
    total: int | None
    """Total of all pages, as the target declares it."""
    next_cursor: str | None
    """None on the last page."""


class SourceSession(Protocol):
    """One visit to the target, through one proxy. Every method raises `SourceFailed`."""

    async def connect(self) -> None: ...

    async def authenticate(self) -> None: ...

    async def warm_up(self) -> None: ...

    async def read_page(self, filters: Filters, page_size: int, cursor: str | None) -> Page: ...

    async def close(self) -> None: ...


class Source(Protocol):
    def open(self, proxy: ProxyAddress | None) -> SourceSession:
        """Create a session without sending anything."""
        ...
