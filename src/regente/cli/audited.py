"""Regente for a command that acts: it writes the command to the audit log, as the API does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

import psycopg
import typer
from psycopg_pool import PoolTimeout

from regente.api.queries import QUERIES, LimitedDatabase
from regente.app import Regente
from regente.cli.author import BY
from regente.cli.output import to_json
from regente.engine.errors import InvalidInput, RegenteError
from regente.redaction import redacted
from regente.settings import Settings

MAX_SHOWN = 100
"""Of a longer list the first are shown, and how many there are."""
MAX_CHARACTERS = 1000


class AuditedRegente(Regente):
    def __init__(
        self,
        settings: Settings,
        components: Collection[str],
        action: str,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(settings=settings, components={*components, "api"})
        self._action = action
        self._options = options

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not isinstance(error, InvalidInput | typer.Abort):  # refused before it began
                await self._note(error)
        finally:
            await super().__aexit__(kind, error, trace)

    async def _note(self, error: BaseException | None) -> None:
        details: dict[str, Any] = {"by": BY, "action": self._action, "target": self._target()}
        if error is None:
            await _write(self, details)
            return
        details["error"] = error.code if isinstance(error, RegenteError) else type(error).__name__
        # The command's own error is the one to show.
        with contextlib.suppress(RegenteError, psycopg.Error, PoolTimeout):
            await _write(self, details)

    def _target(self) -> dict[str, Any]:
        given = {name: one for name, one in self._options.items() if one not in (None, False, [])}
        found: dict[str, Any] = redacted({name: _shown(one) for name, one in given.items()})
        return found


async def _write(app: Regente, details: Mapping[str, Any]) -> None:
    database = LimitedDatabase(app.database)
    await QUERIES.execute(database, "log_operator", details=to_json(details))


def _shown(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if len(value) > MAX_SHOWN:
            return {"first": list(value[:MAX_SHOWN]), "count": len(value)}
        return [_shown(one) for one in value]
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    if text.startswith(("{", "[")):  # JSON, whose secrets have names
        with contextlib.suppress(ValueError, RecursionError):
            return redacted(json.loads(text))
    return text[:MAX_CHARACTERS]
