"""The HTTP API of missions: missions, fleet, orchestrator, reports."""

from __future__ import annotations

from regente.api.routes import proxies, workers, writers
from regente.pipelines.missions.api import missions, orchestrator, reports

ROUTERS = (
    missions.routes,
    workers.routes,
    proxies.routes,
    writers.routes,
    orchestrator.routes,
    reports.routes,
)
