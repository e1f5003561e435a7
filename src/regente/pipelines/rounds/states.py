"""The states of a round and of its matches, in the words of the original
specification's journal."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    PENDING = "PENDING"
    """Its page was not read yet."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """Every match that its page lists is stored."""
    INCOMPLETE = "INCOMPLETE"
    """Nothing runs any more, and a match is missing."""
    FAILED = "FAILED"
    """Its page could not be read: nobody knows its matches."""


class MatchState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    """Postponed."""
    CANCELED = "CANCELED"
    MISSING = "MISSING"
    """It has no task any more, and is not stored."""


OPEN = frozenset({JobState.PENDING, JobState.RUNNING})
