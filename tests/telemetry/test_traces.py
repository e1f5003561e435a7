"""Traces, as a collector receives them."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regente import Regente
from regente.asgi.server import serving
from regente.engine.errors import InvalidInput
from regente.engine.pipeline import Registry
from regente.telemetry.setup import traces


@dataclass
class Collector:
    """Receives spans on `/v1/traces`, and is also the peer that the pipeline calls."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    traceparents: list[str] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(
            routes=[Route("/v1/traces", self._take, methods=["POST"]), Route("/ads", self._answer)]
        )

    async def _take(self, request: Request) -> Response:
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.raw.append(body)
        told = ExportTraceServiceRequest.FromString(body)
        self.spans += [
            span for one in told.resource_spans for scope in one.scope_spans for span in scope.spans
        ]
        return Response(status_code=200, media_type="application/x-protobuf")

    async def _answer(self, request: Request) -> Response:
        self.traceparents.append(request.headers.get("traceparent", ""))
        return JSONResponse({})

    def named(self, name: str) -> list[Span]:
        return sorted(
            (span for span in self.spans if span.name == name),
            key=lambda span: span.start_time_unix_nano,
        )


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    found = Collector()
    async with serving(found.app()) as url:
        found.url = url
        yield found


async def run_program(database_url: str, collector: Collector, **environment: str) -> str:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "REGENTE_OTEL"))
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.telemetry.program",
        database_url,
        collector.url,
        env=clean | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().strip()


@pytest.fixture
async def queued(app: Regente, registry: Registry) -> int:
    @registry.pipeline("traced")
    async def traced(task: object) -> None:
        raise AssertionError("only the other process runs it")

    return await app.enqueue("traced", {}, batch="a batch")


async def test_attempts_in_two_processes_are_one_trace(
    queued: int, database_url: str, collector: Collector
) -> None:
    """S7: task, step and call are one trace; the peer gets it too; it holds no secret."""
    for _ in range(2):
        assert await run_program(database_url, collector, REGENTE_OTEL=collector.url) == "traced"
    first, second = collector.named("task traced")
    (step,) = collector.named("step FETCH")
    (call,) = collector.named("GET")
    assert {span.trace_id for span in (first, second, step, call)} == {first.trace_id}
    assert first.parent_span_id == second.parent_span_id
    assert (step.parent_span_id, call.parent_span_id) == (second.span_id, step.span_id)
    assert collector.traceparents == [f"00-{call.trace_id.hex()}-{call.span_id.hex()}-01"]
    facts = {one.key: one.value for one in first.attributes}
    assert (facts["regente.task.id"].int_value, facts["regente.attempt"].int_value) == (queued, 1)
    assert (facts["regente.outcome"].string_value, first.status.message) == ("retried", "FIRST_TRY")
    assert len(first.links) == 1
    assert not any(b"canary" in body for body in collector.raw)


async def test_opentelemetrys_own_variable_turns_it_on(
    queued: int, database_url: str, collector: Collector
) -> None:
    """S7: OpenTelemetry's own variables are enough."""
    assert (
        await run_program(database_url, collector, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        == "traced"
    )
    assert collector.named("task traced")
    assert (
        await run_program(
            database_url, collector, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, REGENTE_OTEL="off"
        )
        == "untraced"
    )


async def test_opentelemetry_is_not_loaded_by_default(
    queued: int, database_url: str, collector: Collector
) -> None:
    """S7: off by default."""
    assert await run_program(database_url, collector) == "untraced"
    assert not collector.spans


async def test_a_collector_that_is_away_does_not_stop_work(
    queued: int, app: Regente, database_url: str, collector: Collector
) -> None:
    """S7: the work never waits for an export."""
    unreachable = {"REGENTE_OTEL": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    for _ in range(2):
        await run_program(database_url, collector, **unreachable)
    assert (await app.get(queued)).status == "completed"


async def test_nonsense_is_refused(app: Regente) -> None:
    """S7: a wrong value is refused with the accepted ones."""
    with pytest.raises(InvalidInput, match="URL of a collector"):
        await traces(app.database, "perhaps")
