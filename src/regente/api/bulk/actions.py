"""The bulk actions, each an idempotent call of the engine; built-ins add their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from regente.api.models.tasks import TaskChanges
from regente.api.queries import QUERIES, LimitedDatabase
from regente.app import Regente

Apply = Callable[..., Awaitable[int]]
"""Called with a `Regente`, a `LimitedDatabase`, ids, the author, and the request's `changes`, if
it has any, by name; returns how many items it changed."""
Retry = Callable[[Regente, Sequence[int], str], Awaitable[int]]

ENDED = ("failed", "canceled", "skipped")
LIVE = ("draft", "queued", "running")
WAITING = ("draft", "queued")


class ActionKind(StrEnum):
    CANCEL_TASKS = "tasks.cancel"
    RETRY_TASKS = "tasks.retry"
    CHANGE_TASKS = "tasks.change"
    RETRY_FAILURES = "failures.retry"
    DISCARD_FAILURES = "failures.discard"


@dataclass(frozen=True, slots=True)
class BulkAction:
    apply: Apply
    changes: tuple[str, ...]
    """The statuses of the tasks that it changes."""
    pipeline: str | None = None


@dataclass(frozen=True, slots=True)
class BulkActions:
    """The actions by kind, and how tasks are retried."""

    retries: Mapping[str, Retry] = field(default_factory=dict)
    """By pipeline, for those that have a retry of their own."""
    added: Mapping[str, BulkAction] = field(default_factory=dict)

    @property
    def by_kind(self) -> dict[str, BulkAction]:
        return {
            ActionKind.CANCEL_TASKS: BulkAction(_cancel_tasks, LIVE),
            ActionKind.RETRY_TASKS: BulkAction(self.retry, ENDED),
            ActionKind.CHANGE_TASKS: BulkAction(_change_tasks, WAITING),
            ActionKind.RETRY_FAILURES: BulkAction(self.retry, ("failed",)),
            ActionKind.DISCARD_FAILURES: BulkAction(_discard, ("failed",)),
            **self.added,
        }

    async def retry(
        self, app: Regente, database: LimitedDatabase, ids: Sequence[int], by: str
    ) -> int:
        """Retry tasks of any pipeline; the number of those that were requeued."""
        rows = await QUERIES.fetch_all(
            database, "tasks_of_pipelines", ids=list(ids), pipelines=list(self.retries)
        )
        special = {row["id"]: row["pipeline"] for row in rows}
        done = 0
        for pipeline, retry in self.retries.items():
            if own := [one for one in ids if special.get(one) == pipeline]:
                done += await retry(app, own, by)
        others = [one for one in ids if one not in special]
        return done + (len(await app.retry_many(others, by=by)) if others else 0)


async def _cancel_tasks(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return sum((await app.cancel_many(ids, by=by)).values())


async def _change_tasks(
    app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str, **changes: Any
) -> int:
    return len(await app.change_many(ids, by=by, **TaskChanges.model_validate(changes).given))


async def _discard(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return len(await app.discard(ids, by=by))
