"""Audits what was denied: wrong keys, failed sign-ins, and actions above one's role."""

from __future__ import annotations

import json
import logging
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout
from starlette._utils import get_route_path
from starlette.requests import Request

from regente.api.access.principal import Principal
from regente.api.config import ApiConfig
from regente.api.queries import QUERIES, LimitedDatabase
from regente.asgi.client_address import address_of
from regente.asgi.rate_limiter import RateLimiter
from regente.engine.errors import RegenteError
from regente.redaction import redacted_text

logger = logging.getLogger("regente.api")

MAX_PATH_CHARACTERS = 200
MAX_REASON_CHARACTERS = 300
DENIED = (401, 403)
SIGN_IN = ("POST", "/api/session")
"""The route that checks the credentials itself."""


class Denials:
    """Limits the entries per address, so that a flood does not fill the log."""

    def __init__(self, database: LimitedDatabase, config: ApiConfig) -> None:
        self._database = database
        self._rates = RateLimiter(config.wrong_keys_per_second, config.wrong_key_burst)

    async def record(
        self,
        request: Request,
        status: int,
        principal: Principal | None = None,
        *,
        person: str | None = None,
        reason: str | None = None,
    ) -> None:
        """`person` and `reason`: of a sign-in with the provider that failed."""
        address = address_of(request.scope)
        if self._rates.take(address):
            return
        path = get_route_path(request.scope)
        signs_in = reason is not None or (request.method, path) == SIGN_IN
        details: dict[str, Any] = {
            "by": person,
            **(principal.for_audit() if principal else {}),
            "action": "session.failed" if signs_in else "access.denied",
            "reason": reason and redacted_text(reason)[:MAX_REASON_CHARACTERS],
            "target": {
                "method": request.method,
                "path": redacted_text(path)[:MAX_PATH_CHARACTERS],
                "status": status,
            },
            "address": address,
            "request_id": getattr(request.state, "request_id", None),
        }
        given = {name: value for name, value in details.items() if value is not None}
        text = json.dumps(given).replace("\\u0000", "\\ufffd")
        try:
            await QUERIES.execute(self._database, "log_operator", details=text)
        except (RegenteError, psycopg.Error, PoolTimeout) as error:
            logger.warning("a denial was not audited", extra={"error": type(error).__name__})
