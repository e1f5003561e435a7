"""The address of a request's client."""

from __future__ import annotations

from starlette.types import Scope


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
