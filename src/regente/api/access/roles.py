"""What a route asks of its caller. A handler says so in its parameters, `who: Operator`; `guard`
refuses one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request

from regente.api.access.principal import Principal, Role
from regente.api.errors import Forbidden, Unauthorized


class Requires:
    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Principal:
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is None:
            raise Unauthorized("nobody has signed in")
        if not principal.role.includes(self.role):
            raise Forbidden(
                f"this needs the role {self.role}, and {principal.name} is {principal.role}"
            )
        return principal


class PublicRoute:
    """For the very few routes that everybody may use: each must also be named in `gate.py`."""

    async def __call__(self) -> None:
        return None


Viewer = Annotated[Principal, Depends(Requires(Role.VIEWER))]
Operator = Annotated[Principal, Depends(Requires(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(Requires(Role.ADMIN))]
Public = Annotated[None, Depends(PublicRoute())]


class UnguardedRoute(TypeError):
    """A route without a role."""


def role_of(route: APIRoute) -> Role | None:
    """The role that a route asks for; None for one that is open."""
    found = list(_guards(route.dependant))
    if len(found) != 1:
        raise UnguardedRoute(
            f"{route.path} ({route.name}) must ask for exactly one role: add `who: Viewer` "
            "to its parameters"
        )
    return found[0].role if isinstance(found[0], Requires) else None


def guard(router: APIRouter) -> APIRouter:
    for route in router.routes:
        if not isinstance(route, APIRoute):
            raise UnguardedRoute(f"{route!r} is not a route that can ask for a role")
        role_of(route)
    return router


def _guards(dependant: Dependant) -> Iterator[Requires | PublicRoute]:
    for part in dependant.dependencies:
        if isinstance(part.call, Requires | PublicRoute):
            yield part.call
        yield from _guards(part)
