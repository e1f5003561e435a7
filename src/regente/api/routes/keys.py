"""`/api/keys`: API keys and sign-in links."""

from __future__ import annotations

from starlette.requests import Request

from regente.api.access.roles import Admin
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.models.access import CreatedKey, Key, NewKey, SignInLink
from regente.api.resource import resource
from regente.api.scopes import checked_scopes
from regente.api.state import ApiDep
from regente.api.stream.routes import feed_of
from regente.pipelines.builtins import switched_on

routes = resource("/api/keys", "keys")


@routes.get("", summary="List keys")
async def list_keys(api: ApiDep, who: Admin) -> list[Key]:
    return [Key(**row) for row in await api.keys.all()]


@routes.post("", summary="Create a key", status_code=201)
async def create(body: NewKey, api: ApiDep, who: Admin, note: AuditNoteDep) -> CreatedKey:
    """The key itself is only in this response."""
    scopes = checked_scopes(body.scopes, switched_on(api.regente.settings.builtins))
    made = await api.keys.create(
        body.name, body.role, by=who.name, expires_at=body.expires_at, scopes=scopes
    )
    after = {"name": made.name, "role": made.role, "expires_at": body.expires_at, "scopes": scopes}
    note.about({"key": made.id}, after=after)
    return CreatedKey(
        id=made.id, name=made.name, role=made.role, scopes=scopes, api_key=made.secret
    )


@routes.delete("/{member_id}", summary="Revoke a key", status_code=204)
async def revoke(
    member_id: MemberId, request: Request, api: ApiDep, who: Admin, note: AuditNoteDep
) -> None:
    """Its sessions, streams and links end at once. The last valid admin key cannot be revoked."""
    before = await api.keys.revoke(member_id, by=who.name)
    await feed_of(request).check()
    note.about({"key": member_id}, before={"name": before["name"], "role": before["role"]})


@routes.post(
    "/{member_id}/sign-in-link", summary="Create a one-time sign-in link for a key", status_code=201
)
async def sign_in_link(
    member_id: MemberId, request: Request, api: ApiDep, who: Admin, note: AuditNoteDep
) -> SignInLink:
    """The token is in the link's fragment, which browsers do not send to servers."""
    await api.keys.get(member_id)
    link = await api.sessions.new_link(member_id, by=who.name)
    note.about({"key": member_id}, after={"expires_at": link.expires_at})
    base = api.config.public_url or _own_address(request) + api.config.path_prefix
    return SignInLink(url=f"{base}/sign-in#token={link.token}", expires_at=link.expires_at)


def _own_address(request: Request) -> str:
    """The address on which the server listens; the Host header is the client's word."""
    host, port = request.scope["server"]
    return f"{request.url.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
