"""One file per resource. A new one is written like any of these, and added to `ROUTERS`."""

from __future__ import annotations

from regente.api.metrics import routes as metrics
from regente.api.routes import (
    actions,
    batches,
    documentation,
    events,
    execucoes,
    failures,
    health,
    keys,
    missions,
    orchestrator,
    pipelines,
    proxies,
    reports,
    runners,
    scrape,
    session,
    settings,
    sign_in,
    stats,
    system,
    tasks,
    workers,
    writers,
)  # fmt: skip
from regente.api.stream import routes as stream

ROUTERS = tuple(
    module.routes
    for module in (
        missions, batches, tasks, failures, workers, proxies, writers, runners, pipelines, settings, orchestrator, events,
        reports, stats, stream, metrics, actions, session, keys, system, scrape, execucoes, health, documentation, sign_in,
    )
)  # fmt: skip
