"""API keys: created, shown once, stored as a hash, revoked."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from regente.api.access.principal import Principal, Role
from regente.api.queries import QUERIES, LimitedDatabase
from regente.engine.database import text_array
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.queries import Row

KEY_START = "rg_"
SHOWN_CHARACTERS = 11
MAX_GIVEN_CHARACTERS = 200
FIRST_KEY = "admin"

_NAME = re.compile(r"[\w][\w .@+\-]{0,99}")


@dataclass(frozen=True, slots=True)
class NewKey:
    id: str
    name: str
    role: Role
    secret: str = field(repr=False)


class ApiKeys:
    def __init__(self, database: LimitedDatabase) -> None:
        self._database = database

    async def create(
        self,
        name: str,
        role: Role,
        *,
        by: str,
        expires_at: datetime | None = None,
        scopes: Sequence[str] | None = None,
    ) -> NewKey:
        """Create a key. Its secret is only in the result, and stored as a hash."""
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                "a key's name has 1 to 100 letters, digits, spaces and any of . @ + - _"
            )
        if expires_at is not None and (
            expires_at.tzinfo is None or expires_at <= datetime.now(UTC)
        ):
            raise InvalidInput("a key must expire in the future; give the time with its time zone")
        made = await self._add("add_key", name, role, by, expires_at, scopes)
        if made is None:
            raise IllegalTransition(
                f"a key named {name!r} exists already: revoke it or choose another name"
            )
        return made

    async def first(self) -> NewKey | None:
        """Create the admin key of the first start; None if any key has existed before."""
        return await self._add("add_first_key", FIRST_KEY, Role.ADMIN, "first start")

    async def _add(
        self,
        query: str,
        name: str,
        role: Role,
        by: str,
        expires_at: datetime | None = None,
        scopes: Sequence[str] | None = None,
    ) -> NewKey | None:
        secret = KEY_START + secrets.token_urlsafe(32)
        shown = secret[:SHOWN_CHARACTERS]
        row = await QUERIES.fetch_one(
            self._database,
            query,
            name=name,
            prefix=shown,
            hash=digest(secret),
            role=role,
            by=by,
            expires_at=expires_at,
            scopes=None if scopes is None else text_array(scopes),
        )
        return NewKey(row["id"], name, role, secret) if row else None

    async def all(self) -> list[Row]:
        return await QUERIES.fetch_all(self._database, "list_keys", id=None)

    async def get(self, key_id: str) -> Row:
        row = await QUERIES.fetch_one(self._database, "list_keys", id=key_id)
        if row is None:
            raise NotFound(f"there is no key {key_id!r}")
        return row

    async def find(self, which: str) -> str:
        """A valid key by id or name."""
        rows = await QUERIES.fetch_all(self._database, "find_key", which=which)
        if not rows:
            raise NotFound(f"there is no key {which!r}")
        return str(rows[0]["id"])

    async def any_admin(self) -> str:
        for row in await self.all():
            if row["role"] == Role.ADMIN and row["status"] == "valid" and row["scopes"] is None:
                return str(row["id"])
        raise NotFound(
            "there is no valid admin key: create one with `regente keys create NAME --role admin`"
        )

    async def revoke(self, key_id: str, *, by: str) -> Row:
        """Revoke a key with its sessions and links; the last valid admin key is refused."""
        if await QUERIES.fetch_one(self._database, "revoke_key", id=key_id, by=by) is None:
            if (await self.get(key_id))["status"] == "revoked":
                raise IllegalTransition(f"the key {key_id} has been revoked already")
            raise IllegalTransition("this is the last valid admin key: create another one first")
        return await self.get(key_id)

    async def principal(self, secret: str) -> Principal | None:
        if not secret.startswith(KEY_START) or len(secret) > MAX_GIVEN_CHARACTERS:
            return None
        row = await QUERIES.fetch_one(self._database, "use_key", hash=digest(secret))
        return principal_of(row, "key") if row else None


def principal_of(row: Row, via: Literal["key", "session"]) -> Principal:
    scopes = None if row["scopes"] is None else frozenset(row["scopes"])
    return Principal(row["id"], row["name"], Role(row["role"]), via, row.get("session_id"), scopes)


def digest(secret: str) -> bytes:
    """The key's SHA-256: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
