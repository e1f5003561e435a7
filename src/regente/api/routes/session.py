"""`/api/session`: sign in to the console with a link or a key, show the session, sign out."""

from __future__ import annotations

from fastapi import Response
from starlette.requests import Request
from starlette.responses import JSONResponse

from regente.api.access.cookies import session_cookie
from regente.api.access.middleware import wrong_key
from regente.api.access.principal import Principal
from regente.api.access.roles import Public, Viewer
from regente.api.access.sessions import csrf_token
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.models.access import Credentials, OpenSession, Session, SignedOut
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.api.stream.routes import feed_of
from regente.asgi.client_address import address_of

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
    session = await api.sessions.begin(principal, address_of(request.scope))
    cookie = session_cookie(request.scope, api.config)
    cookie.set(response, session.token, api.config.session_hours * 3600)
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
    cookie = None
    if who.via == "session":
        cookie = session_cookie(request.scope, api.config).read(request.scope)
    return Session(
        name=who.name, role=who.role, via=who.via, csrf_token=csrf_token(cookie) if cookie else None
    )


@routes.delete(
    "",
    summary="Sign out",
    status_code=204,
    response_model=None,
    responses={200: {"model": SignedOut, "description": "The session goes on at the provider."}},
)
async def sign_out(request: Request, api: ApiDep, who: Viewer, note: AuditNoteDep) -> Response:
    """A person who signed in with the provider gets the address that ends the session there."""
    url = None
    if who.session_id is not None:
        url = await _url_at_provider(api, request)
        await api.sessions.end(who.session_id, account_id=who.account_id)
    await feed_of(request).check()
    note.about("session")
    response: Response = Response(status_code=204)
    if url is not None:
        response = JSONResponse(SignedOut(url=url).model_dump())
    session_cookie(request.scope, api.config).delete(response)
    return response


@routes.get("/all", summary="List one's sessions")
async def list_sessions(api: ApiDep, who: Viewer) -> list[OpenSession]:
    return [
        OpenSession(**row, current=row["id"] == who.session_id)
        for row in await api.sessions.of_account(who.account_id)
    ]


@routes.delete("/all/{member_id}", summary="End one of one's sessions", status_code=204)
async def end_session(
    member_id: MemberId, request: Request, api: ApiDep, who: Viewer, note: AuditNoteDep
) -> None:
    """Its streams end with it."""
    await api.sessions.end(member_id, account_id=who.account_id)
    await feed_of(request).check()
    note.about({"session": member_id})


async def _url_at_provider(api: Api, request: Request) -> str | None:
    cookie = session_cookie(request.scope, api.config).read(request.scope)
    if api.oidc is None or cookie is None:
        return None
    id_token = await api.sessions.id_token(cookie)
    return await api.oidc.sign_out_url(id_token) if id_token else None


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
