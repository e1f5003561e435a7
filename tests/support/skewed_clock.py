"""Processes whose wall clock is wrong, by libfaketime, which Debian has; installed on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from scripts import debian

_PACKAGE = "libfaketime"


def skewed_environment(minutes: float) -> dict[str, str] | None:
    """The variables of a process whose clock is ahead by this much, or behind; None where there is
    no libfaketime and it cannot be installed. Its monotonic clock is the machine's."""
    library = _library()
    if library is None:
        return None
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{minutes:+g}m",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@cache
def _library() -> Path | None:
    if _find() is None:
        debian.install(_PACKAGE, "for the tests with wrong clocks")
    return _find()


def _find() -> Path | None:
    """The form for programs with threads, if there is one."""
    folders = [Path("/usr/lib"), Path("/usr/local/lib"), Path("/usr/lib64")]
    for name in ("libfaketimeMT.so.1", "libfaketime.so.1"):
        for folder in folders:
            for found in sorted(
                [*folder.glob(f"faketime/{name}"), *folder.glob(f"*/faketime/{name}")]
            ):
                return found
    return None
