"""The author of a request: name, role, and how they authenticated."""

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


UNAUTHENTICATED = Principal("open", "local", Role.ADMIN, "open")
"""The principal of every request when authentication is off."""
