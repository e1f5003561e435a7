"""`/api/people`: who signed in with the OpenID Connect provider."""

from __future__ import annotations

from starlette.requests import Request

from regente.api.access.roles import Admin
from regente.api.audit import AuditNoteDep
from regente.api.limits import MemberId
from regente.api.models.access import Person
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.api.stream.routes import feed_of

routes = resource("/api/people", "people")


@routes.get("", summary="List people")
async def list_people(api: ApiDep, who: Admin) -> list[Person]:
    """Their roles come from the provider, at each sign-in."""
    return [Person(**row) for row in await api.people.all()]


@routes.delete("/{member_id}/sessions", summary="End a person's sessions", status_code=204)
async def end_sessions(
    member_id: MemberId, request: Request, api: ApiDep, who: Admin, note: AuditNoteDep
) -> None:
    """With their streams. The provider decides whether the person may sign in again."""
    ended = await api.people.end_sessions(member_id)
    await feed_of(request).check()
    note.about({"person": member_id}, before={"name": ended["name"], "sessions": ended["ended"]})
