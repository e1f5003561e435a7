"""The audit log: an `operator_action` event for every action, with its author, before and after.

A route class writes the event of every route; a handler adds details through its `AuditNote`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from fastapi.encoders import jsonable_encoder
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from regente.api.access.middleware import SAFE_METHODS
from regente.api.queries import QUERIES, LimitedDatabase
from regente.asgi.client_address import address_of
from regente.redaction import redacted

AUDITED_READS = frozenset({"export", "finish_sign_in"})
"""Names of routes that are read with GET and still are audited: exports, which take much out at
once, and the sign-in by redirect."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class AuditNote:
    """The details that a handler adds to the audit event of its action."""

    target: Any = None
    before: Any = None
    after: Any = None
    skipped: bool = False

    def about(self, target: Any, *, before: Any = None, after: Any = None) -> None:
        self.target, self.before, self.after = target, before, after

    def skip(self) -> None:
        """Write no event: the request was a dry run."""
        self.skipped = True


async def _note(request: Request) -> AuditNote:
    if not hasattr(request.state, "note"):
        request.state.note = AuditNote()
    note: AuditNote = request.state.note
    return note


AuditNoteDep = Annotated[AuditNote, Depends(_note)]


class AuditedRoute(APIRoute):
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if (self.methods or set()) <= set(SAFE_METHODS) and self.name not in AUDITED_READS:
            return handle
        action = f"{self.tags[0] if self.tags else 'api'}.{self.name}"

        async def audited(request: Request) -> Response:
            response = await handle(request)
            note = await _note(request)
            if response.status_code < 400 and not note.skipped:
                await record(request.app.state.api.database, request, action, note)
            return response

        return audited


async def record(database: LimitedDatabase, request: Request, action: str, note: AuditNote) -> None:
    principal = getattr(request.state, "principal", None)
    details = {
        **(principal.for_audit() if principal else {}),
        "action": action,
        "target": note.target or request.path_params or dict(request.query_params) or None,
        "before": note.before,
        "after": note.after,
        "address": address_of(request.scope),
        "request_id": request.state.request_id,
    }
    given = {name: value for name, value in details.items() if value is not None}
    await QUERIES.execute(
        database, "log_operator", details=json.dumps(redacted(jsonable_encoder(given)))
    )
