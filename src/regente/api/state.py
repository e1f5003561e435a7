"""What the routes work with: one object per application, on `app.state.api`. Nothing of it is
global."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from regente.api.access.keys import KeyRing
from regente.api.access.sessions import ConsoleSessions
from regente.api.book import Book
from regente.api.bulk.runner import BulkRunner
from regente.api.terms import ApiTerms
from regente.app import Regente
from regente.services.rates import Rates


@dataclass(frozen=True, slots=True)
class Api:
    regente: Regente
    terms: ApiTerms
    book: Book
    keys: KeyRing
    sessions: ConsoleSessions
    wrong_keys: Rates
    bulk: BulkRunner

    @classmethod
    def over(cls, regente: Regente, terms: ApiTerms) -> Api:
        book = Book(regente.database, terms.statement_seconds)
        sessions = ConsoleSessions(
            book, session_hours=terms.session_hours, sign_in_minutes=terms.sign_in_minutes
        )
        wrong_keys = Rates(terms.wrong_keys_per_second, terms.wrong_key_burst)
        return cls(
            regente,
            terms,
            book,
            KeyRing(book),
            sessions,
            wrong_keys,
            BulkRunner(regente, book, terms),
        )


async def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


Used = Annotated[Api, Depends(_api)]
