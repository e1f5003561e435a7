"""Creates a resource's router, with audited routes: `resource("/api/missions", "missions")`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from regente.api.audit import AuditedRoute


def resource(prefix: str, tag: str) -> APIRouter:
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=AuditedRoute,
        generate_unique_id_function=operation_id,
    )


def operation_id(route: APIRoute) -> str:
    """The operation's name in generated clients."""
    return f"{route.tags[0]}_{route.name}"
