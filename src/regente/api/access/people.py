"""People who sign in with the provider. Their role is what their last sign-in gave them."""

from __future__ import annotations

from regente.api.access.principal import Principal, Role
from regente.api.queries import QUERIES, LimitedDatabase
from regente.engine.errors import NotFound
from regente.queries import Row


class People:
    def __init__(self, database: LimitedDatabase) -> None:
        self._database = database

    async def sign_in(self, issuer: str, subject: str, name: str, role: Role) -> Principal:
        row = await QUERIES.fetch_one(
            self._database,
            "sign_in_person",
            issuer=issuer,
            subject=subject,
            name=name,
            role=role,
        )
        assert row is not None
        return Principal(row["id"], name, role, "session")

    async def refuse(self, issuer: str, subject: str) -> None:
        """Take the role of a person who has none any more, and end their sessions."""
        await QUERIES.execute(self._database, "refuse_person", issuer=issuer, subject=subject)

    async def all(self) -> list[Row]:
        return await QUERIES.fetch_all(self._database, "list_people")

    async def end_sessions(self, person_id: str) -> Row:
        row = await QUERIES.fetch_one(self._database, "end_sessions_of_person", id=person_id)
        if row is None:
            raise NotFound(f"there is no person {person_id!r}")
        return row
