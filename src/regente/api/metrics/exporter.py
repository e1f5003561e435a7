"""The metrics of one API process under /metrics, in a registry of its own."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regente.api.additions import Additions
from regente.api.metrics.cache import MetricsCache
from regente.api.metrics.families import DatabaseCollector
from regente.api.stream.feed import Feed
from regente.engine.database import Database

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MetricsExporter:
    def __init__(
        self,
        database: Database,
        feed: Feed,
        keep_seconds: float = 5.0,
        additions: Sequence[Additions] = (),
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._cache = MetricsCache(database, keep_seconds, additions)
        self.requests = Histogram(
            "regente_http_request_seconds",
            "Duration of requests by route; of a stream, until it begins.",
            ("method", "route", "status"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._registry.register(DatabaseCollector(self._cache))
        self._registry.register(StreamCollector(feed))
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        await self._cache.refresh()
        return generate_latest(self._registry)


class StreamCollector(Collector):
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> list[Metric]:
        feed = self._feed
        read_age = feed.silent_seconds if feed.clients and feed.read_at else 0.0
        return [
            GaugeMetricFamily(
                "regente_stream_clients",
                "Clients of the live stream in this process.",
                feed.clients,
            ),
            GaugeMetricFamily(
                "regente_stream_read_age_seconds",
                "Seconds since the feed was last read.",
                read_age,
            ),
            GaugeMetricFamily(
                "regente_stream_ring_events",
                "Events in the ring buffer.",
                0 if feed.ring is None else len(feed.ring),
            ),
            CounterMetricFamily("regente_stream_events", "Events read.", feed.published),
            CounterMetricFamily("regente_stream_reads", "Reads of the feed.", feed.reads),
            CounterMetricFamily(
                "regente_stream_dropped", "Clients dropped for being too slow.", feed.dropped
            ),
        ]

    def describe(self) -> list[Metric]:
        return []
