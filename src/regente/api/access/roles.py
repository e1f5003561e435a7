"""The role that a route requires: a handler's parameter `who: Operator`; `guard` checks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request

from regente.api.access.principal import Principal, Role
from regente.api.errors import Forbidden, Unauthorized

ALWAYS = frozenset({"session", "health", "documentation"})
"""Resources that a key with other scopes reaches: its own session, and what holds no data."""


class Requires:
    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Principal:
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is None:
            raise Unauthorized("not signed in")
        if not principal.role.includes(self.role):
            raise Forbidden(
                f"this requires the role {self.role}; {principal.name} is {principal.role}"
            )
        _check_scope(request, principal)
        return principal


def _check_scope(request: Request, principal: Principal) -> None:
    if principal.scopes is None:
        return
    wanted = request.scope["route"].tags[0]
    if wanted not in principal.scopes and wanted not in ALWAYS:
        raise Forbidden(f"this requires the scope {wanted}, which the key {principal.name} lacks")


class PublicRoute:
    """Marks a route that needs no authentication; `middleware.py` must list its path, too."""

    async def __call__(self) -> None:
        return None


Viewer = Annotated[Principal, Depends(Requires(Role.VIEWER))]
Operator = Annotated[Principal, Depends(Requires(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(Requires(Role.ADMIN))]
Public = Annotated[None, Depends(PublicRoute())]


class UnguardedRoute(TypeError):
    """A route without a role."""


def role_of(route: APIRoute) -> Role | None:
    """The role that a route requires; None for a public one."""
    found = list(_guards(route.dependant))
    if len(found) != 1:
        raise UnguardedRoute(
            f"{route.path} ({route.name}) must require exactly one role: "
            "add `who: Viewer` to its parameters"
        )
    return found[0].role if isinstance(found[0], Requires) else None


def guard(router: APIRouter) -> APIRouter:
    for route in router.routes:
        if not isinstance(route, APIRoute):
            raise UnguardedRoute(f"{route!r} is not a route that can require a role")
        role_of(route)
    return router


def _guards(dependant: Dependant) -> Iterator[Requires | PublicRoute]:
    for part in dependant.dependencies:
        if isinstance(part.call, Requires | PublicRoute):
            yield part.call
        yield from _guards(part)
