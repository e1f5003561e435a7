"""The application's state, on `app.state.api`: what the routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from regente.api.access.keys import ApiKeys
from regente.api.access.sessions import ConsoleSessions
from regente.api.bulk.runner import BulkRunner
from regente.api.config import ApiConfig
from regente.api.queries import LimitedDatabase
from regente.app import Regente
from regente.asgi.rate_limiter import RateLimiter


@dataclass(frozen=True, slots=True)
class Api:
    regente: Regente
    config: ApiConfig
    database: LimitedDatabase
    keys: ApiKeys
    sessions: ConsoleSessions
    wrong_keys: RateLimiter
    bulk: BulkRunner

    @classmethod
    def over(cls, regente: Regente, config: ApiConfig) -> Api:
        database = LimitedDatabase(regente.database, config.statement_seconds)
        sessions = ConsoleSessions(
            database, session_hours=config.session_hours, sign_in_minutes=config.sign_in_minutes
        )
        wrong_keys = RateLimiter(config.wrong_keys_per_second, config.wrong_key_burst)
        return cls(
            regente,
            config,
            database,
            ApiKeys(database),
            sessions,
            wrong_keys,
            BulkRunner(regente, database, config),
        )


async def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


ApiDep = Annotated[Api, Depends(_api)]
