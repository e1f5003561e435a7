"""The plug-in point: where ads come from. The worker asks for one page after the other; retries and
storage are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regente.contracts.worker import Cause, Filters, Problem, ProxyAddress

Ad = dict[str, Any]
"""At least `id`, which is what tells two ads apart."""


class SourceFailed(Exception):
    """The target, the proxy or the page is not what it should be. `transient`: the same request may
    succeed a moment later."""

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
    """How many ads the target says there are, in all pages."""
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
        """Nothing is sent yet."""
        ...
