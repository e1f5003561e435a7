"""`/metrics`: the metrics for Prometheus."""

from __future__ import annotations

from fastapi import Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request

from regente.api.access.roles import Viewer
from regente.api.metrics.exporter import MetricsExporter
from regente.api.resource import resource

routes = resource("/metrics", "metrics")


class MetricsText(Response):
    media_type = CONTENT_TYPE_PLAIN_0_0_4


@routes.get(
    "",
    summary="Prometheus metrics",
    response_class=MetricsText,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "Prometheus text format.",
        }
    },
)
async def metrics(request: Request, who: Viewer) -> MetricsText:
    """Database metrics are at most five seconds old. Prometheus sends a viewer's `x-api-key`."""
    exporter: MetricsExporter = request.app.state.metrics
    return MetricsText(await exporter.text())
