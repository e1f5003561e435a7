"""`/api/trends`: queue depth, retries by cause and sessions over a time window."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query

from regente.api.access.roles import Viewer
from regente.api.models.trends import Depth, RetryCause, SessionBucket, Trends
from regente.api.queries import QUERIES
from regente.api.resource import resource
from regente.api.routes.stats import BUCKETS
from regente.api.state import ApiDep

routes = resource("/api/trends", "stats")


@routes.get("", summary="Show queue depth, retries and sessions over time")
async def trends(
    api: ApiDep,
    who: Viewer,
    window_seconds: Annotated[
        int, Query(ge=60, le=86_400, description="Length of the time window.")
    ] = 3600,
) -> Trends:
    bucket = max(1, window_seconds // BUCKETS)
    depth, retries, sessions = await asyncio.gather(
        QUERIES.fetch_all(
            api.database,
            "trends_depth",
            window_seconds=window_seconds,
            bucket_seconds=bucket,
            grid_seconds=window_seconds - bucket,
        ),
        QUERIES.fetch_all(api.database, "trends_retries", window_seconds=window_seconds),
        QUERIES.fetch_all(
            api.database, "trends_sessions", window_seconds=window_seconds, bucket_seconds=bucket
        ),
    )
    return Trends(
        window_seconds=window_seconds,
        bucket_seconds=bucket,
        depth=[Depth(**row) for row in depth],
        retries=[RetryCause(**row) for row in retries],
        sessions=[SessionBucket(**row) for row in sessions],
    )
