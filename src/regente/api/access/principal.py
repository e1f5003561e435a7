"""The author of a request: name, role, and how they authenticated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

PERSON_START = "usr_"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    account_id: str
    """The id of a key, or of a person who signed in with the provider."""
    name: str
    role: Role
    via: Literal["key", "session", "open"]
    session_id: str | None = None
    scopes: frozenset[str] | None = None
    """Tags of the resources that it reaches; None: all."""

    @property
    def is_person(self) -> bool:
        return self.account_id.startswith(PERSON_START)

    def for_audit(self) -> dict[str, str]:
        """Its part of an audit event."""
        return {"by": self.name, "person_id" if self.is_person else "key_id": self.account_id}


UNAUTHENTICATED = Principal("open", "local", Role.ADMIN, "open")
"""The principal of every request when authentication is off."""
