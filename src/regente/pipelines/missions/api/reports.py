"""`/api/reports`: a mission's timeline, failures, performance per worker, problem proxies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel

from regente.api.access.roles import Viewer
from regente.api.limits import MAX_PAGE, Id
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.pipelines.missions.queries import REPORTS
from regente.pipelines.missions.read_models import TimelineEvent

routes = resource("/api/reports", "reports")

Days = Annotated[int, Query(ge=1, le=90)]


class FailedMission(BaseModel):
    mission_id: int
    status: str
    error_code: str | None
    error_message: str | None
    retry_count: int
    failed_at: datetime
    details: Any


class WorkerPerformance(BaseModel):
    worker_id: str
    worker_name: str
    completed_count: int
    failed_count: int
    avg_duration_ms: float | None


class ProblemProxy(BaseModel):
    proxy_id: str
    name: str
    host: str
    fail_count: int
    active: bool
    session_failures: int
    rotations: int


@routes.get("/missions/{mission_id}/timeline", summary="Show the timeline of a mission")
async def mission_timeline(mission_id: Id, api: ApiDep, who: Viewer) -> list[TimelineEvent]:
    return [TimelineEvent(**row) for row in await api.regente.missions.timeline(mission_id)]


@routes.get("/failures", summary="List missions that failed in the last 24 hours")
async def failures(
    api: ApiDep,
    who: Viewer,
    hours: Annotated[int, Query(ge=1, le=24 * 30)] = 24,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> list[FailedMission]:
    return [
        FailedMission(**row)
        for row in await REPORTS.fetch_all(
            api.database, "failures_in_24_hours", hours=hours, limit=limit
        )
    ]


@routes.get("/workers", summary="Show the performance per worker")
async def workers(api: ApiDep, who: Viewer, days: Days = 7) -> list[WorkerPerformance]:
    return [
        WorkerPerformance(**row)
        for row in await REPORTS.fetch_all(api.database, "performance_per_worker", days=days)
    ]


@routes.get("/proxies", summary="List problem proxies")
async def proxies(api: ApiDep, who: Viewer, days: Days = 7) -> list[ProblemProxy]:
    return [
        ProblemProxy(**row)
        for row in await REPORTS.fetch_all(api.database, "problem_proxies", days=days)
    ]
