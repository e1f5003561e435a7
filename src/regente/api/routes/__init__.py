"""One file per resource. A new one is written like any of these, and added to `ROUTERS`."""

from __future__ import annotations

from regente.api.metrics import routes as metrics
from regente.api.routes import (
    actions,
    batches,
    demo,
    documentation,
    documents,
    embeddings,
    events,
    execucoes,
    failures,
    health,
    keys,
    missions,
    orchestrator,
    pipelines,
    proxies,
    quotes,
    reports,
    rounds,
    runners,
    scrape,
    session,
    settings,
    sign_in,
    stats,
    system,
    tasks,
    trends,
    workers,
    writers,
)
from regente.api.stream import routes as stream

ROUTERS = tuple(
    module.routes
    for module in (
        missions,
        batches,
        tasks,
        failures,
        workers,
        proxies,
        writers,
        runners,
        pipelines,
        settings,
        orchestrator,
        events,
        reports,
        stats,
        trends,
        stream,
        metrics,
        actions,
        session,
        keys,
        system,
        quotes,
        scrape,
        rounds,
        embeddings,
        documents,
        execucoes,
        health,
        documentation,
        sign_in,
        demo,
    )
)
