"""The core's routes, one file per resource; those of a built-in pipeline are in its folder."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter

from regente.api.metrics import routes as metrics
from regente.api.routes import (
    actions,
    batches,
    documentation,
    events,
    failures,
    health,
    keys,
    lanes,
    oidc,
    people,
    pipelines,
    runners,
    schedules,
    session,
    settings,
    sign_in,
    stats,
    tasks,
    trends,
)
from regente.api.stream import routes as stream
from regente.pipelines.builtin import Builtin

ROUTERS = tuple(
    module.routes
    for module in (
        batches,
        tasks,
        failures,
        runners,
        pipelines,
        lanes,
        schedules,
        settings,
        events,
        stats,
        trends,
        stream,
        metrics,
        actions,
        session,
        oidc,
        keys,
        people,
        health,
        documentation,
        sign_in,
    )
)


def routers_of(builtins: Iterable[Builtin]) -> tuple[APIRouter, ...]:
    """The routers of the core and of these built-ins."""
    return (*ROUTERS, *(router for one in builtins for router in one.routers()))
