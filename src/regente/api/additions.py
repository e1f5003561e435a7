"""What a built-in adds to pages of the API that are not its own: overview, charts, event log,
metrics, bulk actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection

from regente.api.bulk.actions import BulkAction, Retry
from regente.api.models.stats import Attention
from regente.queries import Row, Source

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(frozen=True, slots=True)
class HealthPart:
    """A built-in's part of the overview."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Health`."""
    attention: Sequence[Attention] = ()
    work_waits: bool = False
    """Whether work of its own waits that is not a due task."""


@dataclass(frozen=True, slots=True)
class EventScope:
    """The events of a mission or worker: those of these tasks, or of these sessions."""

    tasks: Sequence[int]
    sessions: Sequence[str] = ()


def problems(*found: tuple[str, int, str]) -> list[Attention]:
    """The problems among these (code, count, message) that there are."""
    return [
        Attention(code=code, count=int(count), message=message)
        for code, count, message in found
        if count
    ]


class Additions:
    """The additions of a built-in; this class adds nothing. Subclasses replace what they need; each
    runs its own queries on the `source`."""

    actions: Mapping[str, BulkAction] = {}
    """Bulk actions by kind."""
    retries: Mapping[str, Retry] = {}
    """How tasks of these pipelines are retried, if not like all others."""
    retry_events: Sequence[str] = ()
    """Events that the chart of retries counts besides the engine's."""
    checkpoints_of: Sequence[str] = ()
    """The pipelines whose checkpoints `running` and `checkpoints` tell."""

    async def health(self, source: Source) -> HealthPart:
        return HealthPart()

    async def oldest_waiting(self, source: Source) -> dict[str, float]:
        """The age in seconds of the oldest waiting task, by pipeline, where tasks are held."""
        return {}

    async def phases(self, source: Source, window_seconds: int) -> list[Row]:
        """Durations by phase, for the overview."""
        return []

    async def sessions(self, source: Source, window_seconds: int, bucket_seconds: int) -> list[Row]:
        """Sessions over time, for the charts."""
        return []

    async def running(self, source: Source) -> list[Row]:
        """Running tasks of `checkpoints_of`: pipeline, checkpoint, tasks, stuck."""
        return []

    async def checkpoints(self, source: Source, ids: Sequence[int]) -> dict[int, str]:
        """The checkpoints of these tasks, as far as they are its own."""
        return {}

    async def event_scope(
        self, source: Source, mission_id: int | None, worker_id: str | None
    ) -> EventScope | None:
        """What the event log's filters by mission and worker select."""
        return None

    async def metrics(self, connection: AsyncConnection[Any]) -> list[Metric]:
        return []
