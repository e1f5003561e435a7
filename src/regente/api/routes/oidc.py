"""`/api/session/oidc`: sign in with the OpenID Connect provider. Pages for browsers, not for
programs: every answer is a redirect, also when the sign-in fails."""

from __future__ import annotations

import logging
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import RedirectResponse

from regente.api.access.cookies import SIGN_IN, Cookie, session_cookie
from regente.api.access.roles import Public
from regente.api.audit import AuditNoteDep
from regente.api.errors import RateLimited
from regente.api.models.access import SignInProvider
from regente.api.oidc.errors import SignInFailed
from regente.api.oidc.flow import ATTEMPT_SECONDS, OidcSignIn
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.asgi.client_address import address_of
from regente.engine.errors import NotFound

logger = logging.getLogger("regente.api")

routes = resource("/api/session", "session")

PAGE: dict[int | str, dict[str, Any]] = {
    303: {"description": "To the provider, the console, or the sign-in page with the problem."},
    404: {},
}


@routes.get("/providers", summary="List the providers to sign in with")
async def list_providers(api: ApiDep, who: Public) -> list[SignInProvider]:
    """Besides an API key or a sign-in link, which always work."""
    if api.oidc is None:
        return []
    config = api.oidc.config
    return [SignInProvider(name=config.name, url=f"{config.public_url}/api/session/oidc")]


@routes.get(
    "/oidc",
    summary="Begin to sign in with the provider",
    status_code=303,
    response_class=RedirectResponse,
    responses=PAGE,
)
async def begin_sign_in(
    request: Request,
    api: ApiDep,
    who: Public,
    page: Annotated[
        str,
        Query(alias="next", max_length=2000, description="The console's page to go to afterwards."),
    ] = "/",
) -> RedirectResponse:
    """Sends a browser to the provider. It comes back to `/api/session/oidc/callback`."""
    oidc = _configured(api)
    _limit(api, request)
    try:
        begun = await oidc.begin(page)
    except SignInFailed as error:
        return await _refused(api, request, oidc, error)
    response = RedirectResponse(begun.url, 303)
    Cookie.of(SIGN_IN, request.scope, api.config).set(response, begun.secret, ATTEMPT_SECONDS)
    return response


@routes.get(
    "/oidc/callback",
    summary="Finish to sign in with the provider",
    status_code=303,
    response_class=RedirectResponse,
    responses=PAGE,
)
async def finish_sign_in(
    request: Request, api: ApiDep, who: Public, note: AuditNoteDep
) -> RedirectResponse:
    """The provider sends the browser here, with a code. Begins a session, and shows the console."""
    oidc = _configured(api)
    cookie = Cookie.of(SIGN_IN, request.scope, api.config)
    try:
        finished = await oidc.finish(cookie.read(request.scope), dict(request.query_params))
    except SignInFailed as error:
        note.skip()
        _limit(api, request)
        response = await _refused(api, request, oidc, error)
        cookie.delete(response)
        return response
    principal = finished.principal
    session = await api.sessions.begin(
        principal, address_of(request.scope), id_token=finished.id_token
    )
    request.state.principal = principal
    note.about("session", after={"expires_at": session.expires_at, "role": principal.role})
    response = RedirectResponse(oidc.config.public_url + finished.page, 303)
    session_cookie(request.scope, api.config).set(
        response, session.token, api.config.session_hours * 3600
    )
    cookie.delete(response)
    return response


def _configured(api: Api) -> OidcSignIn:
    if api.oidc is None:
        raise NotFound("no OpenID Connect provider is configured: sign in with a key or a link")
    return api.oidc


def _limit(api: Api, request: Request) -> None:
    if seconds := api.provider_sign_ins.take(address_of(request.scope)):
        raise RateLimited("too many sign-ins from this address", retry_after_seconds=seconds)


async def _refused(
    api: Api, request: Request, oidc: OidcSignIn, error: SignInFailed
) -> RedirectResponse:
    """Back to the sign-in page, which explains the problem."""
    fields = {"problem": error.problem.value, "reason": error.reason, "by": error.person}
    logger.warning("a sign-in with the provider failed", extra=fields)
    await api.denials.record(request, 401, person=error.person, reason=error.reason)
    query = urlencode({"problem": error.problem.value})
    return RedirectResponse(f"{oidc.config.public_url}/sign-in?{query}", 303)
