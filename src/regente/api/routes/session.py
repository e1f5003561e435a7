"""`/api/session`: sign in to the console with a link or a key, show the session, sign out."""

from __future__ import annotations

from fastapi import Response
from starlette.datastructures import Headers
from starlette.requests import Request

from regente.api.access.middleware import session_cookie, wrong_key
from regente.api.access.principal import Principal
from regente.api.access.roles import Public, Viewer
from regente.api.access.sessions import COOKIE, csrf_token
from regente.api.audit import AuditNoteDep
from regente.api.models.access import Credentials, Session
from regente.api.resource import resource
from regente.api.state import Api, ApiDep

routes = resource("/api/session", "session")


@routes.post("", summary="Sign in", status_code=201)
async def sign_in(
    request: Request,
    response: Response,
    api: ApiDep,
    who: Public,
    note: AuditNoteDep,
    body: Credentials | None = None,
) -> Session:
    """Takes a sign-in link's token, valid once, or an API key. Sets an HttpOnly cookie."""
    principal = await _authenticate(api, request, body or Credentials())
    session = await api.sessions.begin(principal)
    seconds = max(0, int(api.config.session_hours * 3600))
    response.set_cookie(
        COOKIE,
        session.token,
        max_age=seconds,
        path=api.config.path_prefix or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    request.state.principal = principal
    note.about("session", after={"expires_at": session.expires_at})
    return Session(
        name=principal.name,
        role=principal.role,
        via="session",
        csrf_token=csrf_token(session.token),
    )


@routes.get("", summary="Show the session")
async def show(request: Request, api: ApiDep, who: Viewer) -> Session:
    cookie = session_cookie(Headers(scope=request.scope)) if who.via == "session" else None
    return Session(
        name=who.name, role=who.role, via=who.via, csrf_token=csrf_token(cookie) if cookie else None
    )


@routes.delete("", summary="Sign out", status_code=204)
async def sign_out(
    request: Request, response: Response, api: ApiDep, who: Viewer, note: AuditNoteDep
) -> None:
    cookie = session_cookie(Headers(scope=request.scope))
    if cookie is not None:
        await api.sessions.end(cookie)
    response.delete_cookie(
        COOKIE, path=api.config.path_prefix or "/", httponly=True, samesite="strict"
    )
    note.about("session")


async def _authenticate(api: Api, request: Request, given: Credentials) -> Principal:
    principal = None
    if given.token is not None:
        principal = await api.sessions.spend(given.token.get_secret_value())
    elif given.api_key is not None:
        principal = await api.keys.principal(given.api_key.get_secret_value())
    if principal is None:
        raise wrong_key(
            api.wrong_keys, request.scope, "the link has been used, or the key is not valid"
        )
    return principal
