"""The states of rounds and matches, with the original specification's names."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "PENDING"
    """Its page has not been read."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """Every listed match is stored."""
    INCOMPLETE = "INCOMPLETE"
    """All tasks have ended, and a match is not stored."""
    FAILED = "FAILED"
    """Its page could not be read; its matches are unknown."""


class MatchState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    """Postponed."""
    CANCELED = "CANCELED"
    MISSING = "MISSING"
    """Not stored, and its task was deleted."""


OPEN = frozenset({JobState.PENDING, JobState.RUNNING})
