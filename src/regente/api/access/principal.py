"""Who is at the door: a name, a role, and how they showed who they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    key_id: str
    name: str
    role: Role
    via: Literal["key", "session", "open"]


EVERYBODY = Principal("open", "local", Role.ADMIN, "open")
"""Where authentication is off."""
