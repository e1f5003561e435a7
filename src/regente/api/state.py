"""The application's state, on `app.state.api`: what the routes work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from regente.api.access.denials import Denials
from regente.api.access.keys import ApiKeys
from regente.api.access.people import People
from regente.api.access.sessions import ConsoleSessions
from regente.api.additions import Additions
from regente.api.bulk.actions import ActionKind, BulkActions
from regente.api.bulk.runner import BulkRunner
from regente.api.config import ApiConfig
from regente.api.oidc.flow import OidcSignIn
from regente.api.queries import LimitedDatabase
from regente.app import Regente
from regente.asgi.rate_limiter import RateLimiter
from regente.engine.client import Client


@dataclass(frozen=True, slots=True)
class Api:
    regente: Regente
    config: ApiConfig
    database: LimitedDatabase
    reads: Client
    """The engine's lists and lookups, through `database`."""
    keys: ApiKeys
    sessions: ConsoleSessions
    wrong_keys: RateLimiter
    bulk: BulkRunner
    people: People
    oidc: OidcSignIn | None
    """Sign-in with the OpenID Connect provider, if one is configured."""
    provider_sign_ins: RateLimiter
    denials: Denials
    additions: tuple[Additions, ...]
    """What the enabled built-ins add."""

    @classmethod
    def over(cls, regente: Regente, config: ApiConfig, additions: Sequence[Additions] = ()) -> Api:
        database = LimitedDatabase(regente.database, config.statement_seconds)
        sessions = ConsoleSessions(database, config)
        actions = BulkActions(
            retries={name: how for one in additions for name, how in one.retries.items()},
            added={kind: action for one in additions for kind, action in one.actions.items()},
        )
        wrong_keys = RateLimiter(config.wrong_keys_per_second, config.wrong_key_burst)
        return cls(
            regente,
            config,
            database,
            Client(regente.database, regente.registry, database),
            ApiKeys(database),
            sessions,
            wrong_keys,
            BulkRunner(regente, database, config, actions),
            People(database),
            OidcSignIn(config.oidc, database) if config.oidc else None,
            RateLimiter(config.provider_sign_ins_per_second, config.provider_sign_in_burst),
            Denials(database, config),
            tuple(additions),
        )

    async def retry(self, task_id: int, *, by: str) -> bool:
        """Retry one task of any pipeline; False if it cannot be retried."""
        retry = self.bulk.actions[ActionKind.RETRY_TASKS].apply
        return await retry(self.regente, self.database, [task_id], by) > 0


async def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


ApiDep = Annotated[Api, Depends(_api)]
