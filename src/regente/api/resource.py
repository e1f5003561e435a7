"""How a resource begins: `routes = resource("/api/missions", "missions")`. Its routes are audited and checked for a role."""

from __future__ import annotations

from fastapi import APIRouter

from regente.api.audit import AuditedRoute


def resource(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=AuditedRoute)
