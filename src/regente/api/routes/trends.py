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

RETRY_EVENTS = ("task_retried", "task_throttled", "task_stalled", "task_recovered")


@routes.get("", summary="Show queue depth, retries and sessions over time")
async def trends(
    api: ApiDep,
    who: Viewer,
    window_seconds: Annotated[
        int, Query(ge=60, le=86_400, description="Length of the time window.")
    ] = 3600,
) -> Trends:
    bucket = max(1, window_seconds // BUCKETS)
    events = [*RETRY_EVENTS, *(name for one in api.additions for name in one.retry_events)]
    depth, retries, *sessions = await asyncio.gather(
        QUERIES.fetch_all(
            api.database,
            "trends_depth",
            window_seconds=window_seconds,
            bucket_seconds=bucket,
            grid_seconds=window_seconds - bucket,
        ),
        QUERIES.fetch_all(
            api.database, "trends_retries", window_seconds=window_seconds, events=events
        ),
        *(one.sessions(api.database, window_seconds, bucket) for one in api.additions),
    )
    return Trends(
        window_seconds=window_seconds,
        bucket_seconds=bucket,
        depth=[Depth(**row) for row in depth],
        retries=[RetryCause(**row) for row in retries],
        sessions=[SessionBucket(**row) for rows in sessions for row in rows],
    )
