"""Check that every route except the health check requires the key."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from regente.conformance.http import Reply, Service


async def expect_locked(service: Service, request: Callable[[Service], Awaitable[Reply]]) -> str:
    """Expect 401 without a key and with a wrong one."""
    without_key = (await request(service.with_key(None, "without a key"))).expect(401)
    wrong_key = (await request(service.with_key(secrets.token_hex(16), "with a wrong key"))).expect(
        401
    )
    return f"{without_key}; with a wrong key: {wrong_key.status}"


__all__ = ["expect_locked"]
