"""The HTTP API of missions: missions, fleet, orchestrator, reports."""

from __future__ import annotations

from regente.pipelines.missions.api import (
    demo,
    missions,
    orchestrator,
    proxies,
    reports,
    workers,
    writers,
)

ROUTERS = (
    missions.routes,
    workers.routes,
    proxies.routes,
    writers.routes,
    orchestrator.routes,
    reports.routes,
    demo.routes,
)
