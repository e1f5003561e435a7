"""Console sessions: a one-time link or a key becomes a cookie; changes need a CSRF token, too."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from regente.api.access.keys import MAX_GIVEN_CHARACTERS, digest, principal_of
from regente.api.access.principal import Principal
from regente.api.config import ApiConfig
from regente.api.queries import QUERIES, LimitedDatabase
from regente.engine.errors import IllegalTransition, NotFound
from regente.queries import Row

COOKIE = "regente_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""Its name over HTTPS; see `cookies.py`."""
CSRF_HEADER = "x-csrf-token"
_NONCE_BYTES = 12


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
    def __init__(self, database: LimitedDatabase, config: ApiConfig) -> None:
        self._database = database
        self._session_seconds = config.session_hours * 3600
        self._idle_seconds = config.session_idle_minutes * 60
        self._sign_in_seconds = config.sign_in_minutes * 60
        self._issuer = config.oidc.issuer if config.oidc else None
        """Sessions of people of another provider are not valid."""

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
        return principal_of(row, "session") if row else None

    async def begin(
        self, principal: Principal, address: str, *, id_token: str | None = None
    ) -> NewSession:
        """`id_token`: of a person who signed in with the provider; for the sign-out there."""
        token = secrets.token_urlsafe(32)
        row = await QUERIES.fetch_one(
            self._database,
            "begin_session_of_person" if principal.is_person else "begin_console_session",
            hash=digest(token),
            account_id=principal.account_id,
            address=address,
            seconds=self._session_seconds,
            id_token=_sealed(id_token, token) if id_token else None,
        )
        if row is None:
            raise IllegalTransition("the key has been revoked meanwhile")
        return NewSession(principal, row["expires_at"], token)

    async def principal(self, token: str) -> Principal | None:
        if len(token) > MAX_GIVEN_CHARACTERS:
            return None
        row = await QUERIES.fetch_one(
            self._database,
            "use_session",
            hash=digest(token),
            idle_seconds=self._idle_seconds,
            issuer=self._issuer,
        )
        return principal_of(row, "session") if row else None

    async def of_account(self, account_id: str) -> list[Row]:
        return await QUERIES.fetch_all(
            self._database,
            "list_console_sessions",
            account_id=account_id,
            idle_seconds=self._idle_seconds,
        )

    async def end(self, session_id: str, *, account_id: str) -> None:
        ended = await QUERIES.fetch_one(
            self._database, "end_console_session", id=session_id, account_id=account_id
        )
        if ended is None:
            raise NotFound(f"there is no session {session_id} of this key or person")

    async def id_token(self, token: str) -> str | None:
        """The ID token with which the session of this token began, if any."""
        row = await QUERIES.fetch_one(self._database, "id_token_of_session", hash=digest(token))
        return _opened(row["id_token"], token) if row and row["id_token"] else None


def _sealed(text: str, session_token: str) -> bytes:
    """Encrypted with the session's token, which the database does not know."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(session_token).encrypt(nonce, text.encode(), None)


def _opened(sealed: bytes, session_token: str) -> str:
    nonce, data = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    return _cipher(session_token).decrypt(nonce, data, None).decode()


def _cipher(session_token: str) -> AESGCM:
    person = b"regente idtoken"
    return AESGCM(hashlib.blake2b(session_token.encode(), digest_size=32, person=person).digest())


def csrf_token(session_token: str) -> str:
    """The session's CSRF token, derived and not stored: only readers of responses know it."""
    return hmac.new(session_token.encode(), b"regente csrf", hashlib.sha256).hexdigest()


def csrf_matches(session_token: str, given: str) -> bool:
    return hmac.compare_digest(csrf_token(session_token).encode(), given.encode())
