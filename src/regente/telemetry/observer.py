"""Spans for attempts, steps and outgoing calls.

A task's trace id is derived from its id, so all its attempts are one trace in any process, and a
sampler by trace id (`OTEL_TRACES_SAMPLER=traceidratio`) keeps a task with all its attempts or
not at all. Error messages are left out; only error codes are recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from regente.engine.hooks import current_observer
from regente.engine.log import current_runner
from regente.engine.outcome import Completed, Outcome
from regente.engine.task import Task

T = TypeVar("T")

_PROPAGATOR = TraceContextTextMapPropagator()


class Traces:
    """The engine's observer that makes spans."""

    def __init__(self, installation: str, endpoint: str = "") -> None:
        self._installation = installation
        self._provider = _provider(endpoint)
        self._tracer = self._provider.get_tracer("regente")

    def close(self) -> None:
        """Export the remaining spans. It blocks, so do not call it on the event loop."""
        self._provider.shutdown()

    async def attempt(self, task: Task[Any], work: Awaitable[Outcome | None]) -> Outcome | None:
        current_observer.set(self)
        links = [] if task.batch_id is None else [Link(self._context("batch", task.batch_id))]
        parent = trace.set_span_in_context(NonRecordingSpan(self._context("task", task.id)))
        with self._tracer.start_as_current_span(
            f"task {task.pipeline}",
            parent,
            SpanKind.CONSUMER,
            _task_attributes(task),
            links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            outcome = await work
            _record_outcome(span, outcome)
            return outcome

    async def step(self, task: Task[Any], name: str, work: Awaitable[T]) -> T:
        with self._span(
            f"step {name}", SpanKind.INTERNAL, {"regente.task.id": task.id, "regente.step": name}
        ):
            return await work

    @contextmanager
    def call(self, method: str, url: str) -> Iterator[TracedCall]:
        with self._span(method, SpanKind.CLIENT, _call_attributes(method, url)) as span:
            headers: dict[str, str] = {}
            _PROPAGATOR.inject(headers)
            yield TracedCall(span, headers)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, None, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                code = str(getattr(error, "code", type(error).__name__))
                span.set_attribute("error.type", code)
                span.set_status(StatusCode.ERROR, code)
                raise

    def _context(self, kind: str, number: int) -> SpanContext:
        digest = hashlib.sha256(f"{self._installation}/{kind}/{number}".encode()).digest()
        trace_id, span_id = int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])
        return SpanContext(
            trace_id or 1, span_id or 1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )


class TracedCall:
    def __init__(self, span: Span, headers: dict[str, str]) -> None:
        self._span = span
        self.headers = headers

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_status(StatusCode.ERROR, str(status))


def _provider(endpoint: str) -> TracerProvider:
    """Use the program's provider if it has one; otherwise ours becomes the program's."""
    provider_of_program = trace.get_tracer_provider()
    if isinstance(provider_of_program, TracerProvider):
        return provider_of_program
    resource = Resource({SERVICE_NAME: "regente"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    exporter = (
        OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces") if endpoint else OTLPSpanExporter()
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _task_attributes(task: Task[Any]) -> dict[str, Any]:
    attributes = {
        "regente.task.id": task.id,
        "regente.pipeline": task.pipeline,
        "regente.attempt": task.attempt,
        "regente.batch.id": task.batch_id,
        "regente.runner": current_runner.get(),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _record_outcome(span: Span, outcome: Outcome | None) -> None:
    if outcome is None or isinstance(outcome, Completed):
        span.set_attribute("regente.outcome", "lost" if outcome is None else "completed")
        return
    span.set_attribute("regente.outcome", outcome.event.removeprefix("task_"))
    if outcome.failure is not None:
        span.set_attribute("error.type", outcome.failure.code)
        span.set_status(StatusCode.ERROR, outcome.failure.code)


def _call_attributes(method: str, url: str) -> dict[str, Any]:
    """The call's URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    attributes = {
        "http.request.method": method,
        "url.full": f"{parts.scheme}://{host}{port}{parts.path}",
        "server.address": host,
        "server.port": parts.port,
    }
    return {name: value for name, value in attributes.items() if value is not None}
