"""How a resource begins: `routes = resource("/api/missions", "missions")`. Its routes are audited
and checked for a role."""

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
    """What the operation is called in clients that are made from the document."""
    return f"{route.tags[0]}_{route.name}"
