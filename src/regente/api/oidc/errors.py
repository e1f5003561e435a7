"""Why a sign-in with the provider failed; the sign-in page explains it in the reader's language."""

from __future__ import annotations

from enum import StrEnum


class SignInProblem(StrEnum):
    UNAVAILABLE = "provider_unavailable"
    """The provider does not answer, or says that it cannot."""
    CANCELED = "canceled"
    """The provider or the person refused."""
    EXPIRED = "expired"
    """This browser did not begin this sign-in, or began it too long ago, or it was used already."""
    INVALID = "invalid_answer"
    """What the provider says cannot be trusted."""
    NO_ROLE = "no_role"
    """No claim gives the person a role."""


class SignInFailed(Exception):
    def __init__(self, problem: SignInProblem, reason: str, *, person: str | None = None) -> None:
        super().__init__(reason)
        self.problem = problem
        self.reason = reason
        """For the log and the audit log."""
        self.person = person
        """The person's name, if the provider told it."""
