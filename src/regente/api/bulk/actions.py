"""The bulk actions, each an idempotent call of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from regente.api.queries import QUERIES, LimitedDatabase
from regente.app import Regente

Apply = Callable[[Regente, LimitedDatabase, Sequence[int], str], Awaitable[int]]


class ActionKind(StrEnum):
    QUEUE_MISSIONS = "missions.queue"
    CANCEL_MISSIONS = "missions.cancel"
    RETRY_MISSIONS = "missions.retry"
    CANCEL_TASKS = "tasks.cancel"
    RETRY_TASKS = "tasks.retry"
    RETRY_FAILURES = "failures.retry"
    DISCARD_FAILURES = "failures.discard"


@dataclass(frozen=True, slots=True)
class BulkAction:
    apply: Apply
    changes: tuple[str, ...]
    """The statuses of the tasks that it changes."""
    pipeline: str | None = None


async def _queue_missions(
    app: Regente, database: LimitedDatabase, ids: Sequence[int], by: str
) -> int:
    drafts = await _missions_among(database, ids)
    return len(await app.missions.queue(drafts, by=by)) if drafts else 0


async def _cancel_missions(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return sum((await app.missions.cancel_many(ids, by=by)).values())


async def _retry_missions(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return len(await app.missions.retry_many(ids, by=by))


async def _cancel_tasks(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return sum((await app.cancel_many(ids, by=by)).values())


async def retry_any(app: Regente, database: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    """Retry tasks; missions through their own operations."""
    missions = set(await _missions_among(database, ids))
    others = [one for one in ids if one not in missions]
    done = len(await app.missions.retry_many(sorted(missions), by=by)) if missions else 0
    return done + (len(await app.retry_many(others, by=by)) if others else 0)


async def _discard(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return len(await app.discard(ids, by=by))


async def _missions_among(database: LimitedDatabase, ids: Sequence[int]) -> list[int]:
    return [row["id"] for row in await QUERIES.fetch_all(database, "missions_among", ids=list(ids))]


ENDED = ("failed", "canceled", "skipped")
LIVE = ("draft", "queued", "running")
ACTIONS: dict[ActionKind, BulkAction] = {
    ActionKind.QUEUE_MISSIONS: BulkAction(_queue_missions, ("draft",), "missions"),
    ActionKind.CANCEL_MISSIONS: BulkAction(_cancel_missions, LIVE, "missions"),
    ActionKind.RETRY_MISSIONS: BulkAction(_retry_missions, ("failed", "canceled"), "missions"),
    ActionKind.CANCEL_TASKS: BulkAction(_cancel_tasks, LIVE),
    ActionKind.RETRY_TASKS: BulkAction(retry_any, ENDED),
    ActionKind.RETRY_FAILURES: BulkAction(retry_any, ("failed",)),
    ActionKind.DISCARD_FAILURES: BulkAction(_discard, ("failed",)),
}
