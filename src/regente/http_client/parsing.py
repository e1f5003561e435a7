"""Parses pages of third parties where it can be stopped: all but small ones in a child process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from regente.engine.codec import return_hint, validate
from regente.engine.isolation import run_isolated

T = TypeVar("T")

SMALL_PAGE_CHARACTERS = 8_000
"""What parsers take milliseconds and a few megabytes for, even if it was made to take more: 40,000
characters of formatting elements, which HTML opens again in each paragraph, take 2 GB."""
PARSE_SECONDS = 20.0
PARSE_MEMORY_MB = 1024


async def parse_page(parse: Callable[..., T], *args: str, seconds: float = PARSE_SECONDS) -> T:
    """The result of the parser, a function at module level. Raises `Transient` when a page
    needs too much time or memory, or crashes the parser."""
    if sum(map(len, args)) < SMALL_PAGE_CHARACTERS:
        return parse(*args)
    found = await run_isolated(
        parse,
        args,
        {},
        timeout_seconds=seconds,
        memory_mb=PARSE_MEMORY_MB,
        on_start=lambda _: None,
    )
    result: T = validate(found, return_hint(parse), what=f"the result of {parse.__name__}")
    return result
