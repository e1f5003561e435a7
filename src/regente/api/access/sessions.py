"""Console sessions: a one-time link or a key becomes a cookie; changes need a CSRF token, too."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from regente.api.access.keys import MAX_GIVEN_CHARACTERS, digest
from regente.api.access.principal import Principal, Role
from regente.api.queries import QUERIES, LimitedDatabase
from regente.engine.errors import IllegalTransition

COOKIE = "regente_session"
CSRF_HEADER = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class NewSession:
    principal: Principal
    expires_at: datetime
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignIn:
    expires_at: datetime
    token: str = field(repr=False)


class ConsoleSessions:
    def __init__(
        self, database: LimitedDatabase, *, session_hours: float, sign_in_minutes: float
    ) -> None:
        self._database = database
        self._session_seconds = session_hours * 3600
        self._sign_in_seconds = sign_in_minutes * 60

    async def new_link(self, key_id: str, *, by: str) -> SignIn:
        token = secrets.token_urlsafe(32)
        row = await QUERIES.fetch_one(
            self._database,
            "add_sign_in",
            hash=digest(token),
            key_id=key_id,
            by=by,
            seconds=self._sign_in_seconds,
        )
        if row is None:
            raise IllegalTransition(f"the key {key_id} is not valid any more")
        return SignIn(row["expires_at"], token)

    async def spend(self, token: str) -> Principal | None:
        """The principal of a sign-in link's token, which is valid once."""
        if len(token) > MAX_GIVEN_CHARACTERS:
            return None
        row = await QUERIES.fetch_one(self._database, "spend_sign_in", hash=digest(token))
        return Principal(row["id"], row["name"], Role(row["role"]), "session") if row else None

    async def begin(self, principal: Principal) -> NewSession:
        token = secrets.token_urlsafe(32)
        seconds = self._session_seconds
        row = await QUERIES.fetch_one(
            self._database,
            "begin_console_session",
            hash=digest(token),
            key_id=principal.key_id,
            seconds=seconds,
        )
        if row is None:
            raise IllegalTransition("the key has been revoked meanwhile")
        return NewSession(principal, row["expires_at"], token)

    async def principal(self, token: str) -> Principal | None:
        if len(token) > MAX_GIVEN_CHARACTERS:
            return None
        row = await QUERIES.fetch_one(self._database, "use_session", hash=digest(token))
        return Principal(row["id"], row["name"], Role(row["role"]), "session") if row else None

    async def end(self, token: str) -> None:
        await QUERIES.execute(self._database, "end_console_session", hash=digest(token))


def csrf_token(session_token: str) -> str:
    """The session's CSRF token, derived and not stored: only readers of responses know it."""
    return hmac.new(session_token.encode(), b"regente csrf", hashlib.sha256).hexdigest()


def csrf_matches(session_token: str, given: str) -> bool:
    return hmac.compare_digest(csrf_token(session_token).encode(), given.encode())
