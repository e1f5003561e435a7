"""`/api/health`: whether the API and its database answer; needs no authentication."""

from __future__ import annotations

from regente.api.access.roles import Public
from regente.api.models.access import Health
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.state import ApiDep

routes = resource("/api/health", "health")


@routes.get("", summary="Health check")
async def health(api: ApiDep, who: Public) -> Health:
    await QUERIES.execute(api.database, "ping")
    return Health()
