"""What quotes add to the API: their metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric
from psycopg import AsyncConnection

from regente.api.additions import Additions
from regente.api.metrics.families import gauge
from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.maintenance import QUOTES, STUCK_SECONDS
from regente.pipelines.quotes.queries import SYSTEM
from regente.queries import Row

CAP = 100_000
LATEST_EVENTS = 5000


class QuoteAdditions(Additions):
    async def metrics(self, connection: AsyncConnection[Any]) -> list[Metric]:
        (stats,) = await SYSTEM.fetch_all(
            connection,
            "processing_stats",
            stuck_seconds=STUCK_SECONDS,
            pipeline=QUOTES,
            others=[],
        )
        (pending,) = await SYSTEM.fetch_all(connection, "pending", cap=CAP)
        (average,) = await SYSTEM.fetch_all(
            connection, "average_seconds", events=LATEST_EVENTS, pipeline=QUOTES
        )
        return list(_families(stats, pending["quotes"], average["seconds"]))


def _families(stats: Row, pending: int, average: float | None) -> Iterator[Metric]:
    yield gauge(
        "regente_quotes",
        f"Open quotes by status; pending ones are counted up to {CAP:,}.",
        ("status",),
        [(("PENDING",), pending), (("PROCESSING",), stats["total_processing"])],
    )
    yield gauge(
        "regente_quotes_stuck",
        "Quotes that are being processed without a heartbeat for 10 minutes.",
        (),
        [((), stats["stuck_count"])],
    )
    places = {checkpoint.value: 0 for checkpoint in Checkpoint} | stats["by_checkpoint"]
    yield gauge(
        "regente_quotes_at_checkpoint",
        "Quotes that are being processed by checkpoint.",
        ("checkpoint",),
        [((checkpoint,), count) for checkpoint, count in places.items()],
    )
    yield gauge(
        "regente_quotes_processing_average_seconds",
        "Average time that the attempts of the latest completed quotes took, without waits.",
        (),
        [] if average is None else [((), average)],
    )


ADDITIONS = QuoteAdditions()
