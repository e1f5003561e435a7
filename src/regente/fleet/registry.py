"""The fleet's register: adds, changes, tests and switches members, each with its event."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from psycopg.errors import UniqueViolation

from regente.engine.database import Database
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.fleet.addresses import checked_proxy, checked_storage, checked_url, has_port, origin
from regente.fleet.clients import WorkerClient, WriterClient
from regente.fleet.config import FleetConfig
from regente.fleet.models import KINDS, Kind, Proxy, Worker, Writer
from regente.fleet.read_models import MODELS, FleetMember, Member
from regente.fleet.secrets import Secrets
from regente.http_client.client import HttpClient
from regente.queries import Queries, Row, Source

QUERIES = Queries(Path(__file__).with_name("fleet.sql"))
MAX_NAME_CHARACTERS = 100
NO_EVENT = "(runner)"
"""The author of changes that are not events of the register."""
M = TypeVar("M", bound=Member)


class Fleet:
    """The members of the fleet and clients for them."""

    def __init__(
        self, database: Database, secrets: Secrets, config: FleetConfig | None = None
    ) -> None:
        self.database = database
        self.secrets = secrets
        self.config = config or FleetConfig()
        self.http = HttpClient(self.config.http_timeout_seconds, secrets.mask)

    async def close(self) -> None:
        await self.http.close()

    def worker_client(self, worker: Worker) -> WorkerClient:
        return WorkerClient(self.http, worker)

    def writer_client(self, writer: Writer) -> WriterClient:
        return WriterClient(self.http, writer)

    # Reads.

    async def worker(self, worker_id: str) -> Worker:
        row = await self._one("worker", worker_id)
        return Worker(**{**row, "api_key": self.secrets.decrypt(row["api_key"])})

    async def proxy(self, proxy_id: str) -> Proxy:
        row = await self._one("proxy", proxy_id)
        password = row["password"]
        return Proxy(
            **{**row, "password": self.secrets.decrypt(password) if password is not None else None}
        )

    async def writer(self, writer_id: str) -> Writer:
        row = await self._one("writer", writer_id)
        return Writer(**{**row, "api_key": self.secrets.decrypt(row["api_key"])})

    async def members(self, kind: Kind | None = None) -> list[FleetMember]:
        """Workers, proxies and writers, each by name."""
        found: list[FleetMember] = []
        for model in MODELS:
            if kind in (None, model.kind):
                found += await list_members(self.database, model)
        return found

    async def find(self, which: str) -> tuple[Kind, str]:
        """A member by id or name."""
        rows = await QUERIES.fetch_all(self.database, "find_member", which=which)
        if not rows:
            raise NotFound(f"the fleet has no {which!r}")
        if len(rows) > 1:
            kinds = ", ".join(f"{row['kind']} {row['id']}" for row in rows)
            raise InvalidInput(f"{which!r} is the name of several members: {kinds}. Use the id.")
        return rows[0]["kind"], rows[0]["id"]

    # Changes.

    async def add_worker(
        self, name: str, url: str, api_key: str, storage_domain: str | None, *, by: str = "user"
    ) -> str:
        if not storage_domain:
            raise InvalidInput(
                "a worker needs a storage_domain: without it its results cannot be found"
            )
        fields = {
            "name": _name(name),
            "url": checked_url(url),
            "storage_domain": checked_storage(storage_domain),
        }
        return await self._add(
            "worker", {**fields, "api_key": self._secret(api_key, "api_key")}, by
        )

    async def add_proxy(
        self,
        name: str,
        host: str,
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        *,
        by: str = "user",
    ) -> str:
        if port is not None and has_port(checked_proxy(host)):
            raise InvalidInput("the port is given twice: in the host and as port")
        fields = {
            "name": _name(name),
            "host": checked_proxy(host),
            "port": _port(port),
            "username": _username(username),
        }
        secret = self._secret(password, "password") if password else None
        return await self._add("proxy", {**fields, "password": secret}, by)

    async def add_writer(self, name: str, url: str, api_key: str, *, by: str = "user") -> str:
        fields = {
            "name": _name(name),
            "url": checked_url(url),
            "api_key": self._secret(api_key, "api_key"),
        }
        return await self._add("writer", fields, by)

    async def edit(
        self, kind: Kind, member_id: str, changes: dict[str, Any], *, by: str = "user"
    ) -> None:
        """Change the given fields; a field that is None stays."""
        checks: dict[str, Callable[[object], Any]] = {
            "name": _name,
            "url": checked_url,
            "storage_domain": checked_storage,
            "host": checked_proxy,
            "port": _port,
            "username": _username,
        }
        fields = {
            "worker": ("name", "url", "api_key", "storage_domain"),
            "proxy": ("name", "host", "port", "username", "password"),
            "writer": ("name", "url", "api_key"),
        }[kind]
        unknown = set(changes) - set(fields)
        if unknown:
            raise InvalidInput(f"a {kind} has no {', '.join(sorted(unknown))}")
        values: dict[str, Any] = dict.fromkeys(fields)
        for name, value in changes.items():
            if value is not None:
                secret = name in ("api_key", "password")
                values[name] = self._secret(value, name) if secret else checks[name](value)
        await self._check_destination(kind, member_id, values)
        try:
            await self._change(f"edit_{kind}", kind, member_id, values, by)
        except UniqueViolation:
            raise InvalidInput(f"there is already a {kind} called {values['name']!r}") from None

    async def set_active(
        self, kind: Kind, member_id: str, active: bool, *, by: str = "user"
    ) -> None:
        await self._change(f"set_{kind}_active", kind, member_id, {"active": active}, by)

    async def remove(self, kind: Kind, member_id: str, *, by: str = "user") -> None:
        await self._one(kind, member_id)
        try:
            await self._change(f"remove_{kind}", kind, member_id, {}, by)
        except NotFound:
            raise IllegalTransition(
                f"the {kind} {member_id} is in use: deactivate it and wait until it is idle"
            ) from None

    async def rotate_secrets(self, *, by: str = "user") -> int:
        """Encrypt every stored secret with the current key; how many had another one."""
        done = 0
        for row in await QUERIES.fetch_all(self.database, "stored_secrets"):
            old = row["secret"]
            if not self.secrets.is_current(old):
                new = self.secrets.encrypt(self.secrets.decrypt(old))
                query = f"replace_{row['kind']}_secret"
                done += await self.change(query, id=row["id"], old=old, new=new)
        await self.offer_sealing_key()
        if done:
            details = {"by": by, "secrets": done, "key": self.secrets.key_id}
            await self.change("log_fleet", event="secrets_rotated", details=json.dumps(details))
        return done

    async def offer_sealing_key(self) -> None:
        """Tell the database the public key for which it encrypts what is written in SQL."""
        await self.change(
            "offer_sealing_key",
            id=self.secrets.key_id,
            public=self.secrets.sealing_key,
            named=self.secrets.named,
            known=self.secrets.key_ids,
        )

    async def secrets_by_key(self) -> dict[str, int]:
        """How many stored secrets are under the current key, and under another one."""
        rows = await QUERIES.fetch_all(self.database, "stored_secrets")
        current = sum(self.secrets.is_current(row["secret"]) for row in rows)
        return {"current": current, "former": len(rows) - current}

    async def change(self, query: str, /, *, by: str = NO_EVENT, **params: Any) -> int:
        """How many rows it changed. The statement is sent once, even if its answer gets lost."""
        async with self.database.transaction() as connection:
            await QUERIES.execute(connection, "set_author", by=by)
            return await QUERIES.execute(connection, query, **params)

    async def _check_destination(self, kind: Kind, member_id: str, values: Row) -> None:
        """Refuse a new address without the secret: the stored one would be sent there."""
        address, secret = ("host", "password") if kind == "proxy" else ("url", "api_key")
        if values[address] is None or values[secret] is not None:
            return
        row = await self._one(kind, member_id)
        if row[secret] is not None and origin(values[address]) != origin(row[address]):
            raise InvalidInput(f"with a new address, give the {secret} again: it is sent there")

    # Helpers.

    async def _one(self, kind: Kind, member_id: str) -> Row:
        row = await QUERIES.fetch_one(self.database, kind, id=member_id)
        if row is None:
            raise NotFound(f"there is no {kind} {member_id!r}")
        return row

    async def _add(self, kind: Kind, fields: dict[str, Any], by: str) -> str:
        async with self.database.transaction() as connection:
            await QUERIES.execute(connection, "set_author", by=by)
            row = await QUERIES.fetch_one(connection, f"add_{kind}", **fields)
        if row is None:
            raise InvalidInput(f"there is already a {kind} called {fields['name']!r}")
        await self.offer_sealing_key()
        await self._follow_rotation(by)
        return str(row["id"])

    async def _change(
        self, query: str, kind: Kind, member_id: str, values: dict[str, Any], by: str
    ) -> None:
        if not await self.change(query, by=by, **values, id=member_id):
            raise NotFound(f"there is no {kind} {member_id!r}")
        await self._follow_rotation(by)

    async def _follow_rotation(self, by: str) -> None:
        """A rotation between encrypting and storing has missed the secret."""
        encrypted_with = self.secrets.key_id
        self.secrets.reload()
        if self.secrets.key_id != encrypted_with:
            await self.rotate_secrets(by=by)

    def _secret(self, value: object, what: str) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
            raise InvalidInput(f"{what} has 1 to 200 printable characters")
        return self.secrets.encrypt(value)


async def list_members(source: Source, model: type[M], member_id: str | None = None) -> list[M]:
    """The members of one kind as people see them, by name; with an id, the one."""
    rows = await QUERIES.fetch_all(source, f"list_{model.kind}", id=member_id)
    return [model(**row) for row in rows]


def _name(value: object) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value.strip()) <= MAX_NAME_CHARACTERS
        or not value.isprintable()
    ):
        raise InvalidInput(f"a name has 1 to {MAX_NAME_CHARACTERS} printable characters")
    return value.strip()


def _username(value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS or not value.isprintable():
        raise InvalidInput(f"a username has 1 to {MAX_NAME_CHARACTERS} printable characters")
    return value


def _port(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise InvalidInput(f"{value!r} is not a port: 1 to 65535")
    return value


__all__ = ["KINDS", "Fleet", "list_members"]
