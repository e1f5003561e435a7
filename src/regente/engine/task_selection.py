"""Actions on all tasks that match a filter, with a preview of what they would change.

They go page by page, each its own transaction: what was done stays done when a later one fails, and
the same action can be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict, Unpack

from regente.engine.changes import Changes
from regente.engine.codec import is_storable
from regente.engine.database import ReadsRows, text_array
from regente.engine.errors import InvalidInput
from regente.engine.models import STATUSES, SelectionPreview

if TYPE_CHECKING:
    from regente.engine.client import Client

PAGE = 1000
SAMPLE = 20

Action = Literal["cancel", "retry", "discard", "change"]
CHANGES: dict[Action, tuple[str, ...]] = {
    "cancel": ("draft", "queued", "running"),
    "retry": ("failed", "canceled", "skipped"),
    "discard": ("failed",),
    "change": ("draft", "queued"),
}
"""The statuses of the tasks that an action changes."""


class TaskFilter(TypedDict, total=False):
    pipeline: str | None
    statuses: Sequence[str] | None
    batch_id: int | None
    code: str | None
    everything: bool


class TaskSelection:
    """The tasks that match all given conditions, as they are when an action comes to them."""

    def __init__(self, client: Client, reads: ReadsRows, chosen: TaskFilter) -> None:
        self._client = client
        self._reads = reads
        self._statuses = _checked(chosen)
        self._filter = {name: chosen.get(name) for name in ("pipeline", "batch_id", "code")}

    async def preview(self, action: Action) -> SelectionPreview:
        """How many tasks match, by status, and how many of them the action would change."""
        params = {**self._filter, "statuses": self._among(STATUSES), "sample": SAMPLE}
        rows = await self._reads.fetch_dicts("preview_tasks", params)
        by_status = {row["status"]: row["tasks"] for row in rows}
        return SelectionPreview(
            action=action,
            total=sum(by_status.values()),
            by_status=by_status,
            would_change=sum(by_status.get(status, 0) for status in CHANGES[action]),
            sample=sorted((one for row in rows for one in row["newest"]), reverse=True)[:SAMPLE],
        )

    async def cancel(self, *, by: str | None = None) -> int:
        """The number of tasks that were canceled, or whose runner was asked to stop them."""

        async def act(ids: Sequence[int]) -> int:
            return sum((await self._client.cancel_many(ids, by=by)).values())

        return await self._each_page("cancel", act)

    async def retry(self, *, by: str | None = None) -> int:
        """The number of tasks that were queued again."""

        async def act(ids: Sequence[int]) -> int:
            return len(await self._client.retry_many(ids, by=by))

        return await self._each_page("retry", act)

    async def discard(self, *, by: str | None = None) -> int:
        """The number of dead letters that were discarded."""

        async def act(ids: Sequence[int]) -> int:
            return len(await self._client.discard(ids, by=by))

        return await self._each_page("discard", act)

    async def change(self, *, by: str | None = None, **changes: Unpack[Changes]) -> int:
        """The number of waiting tasks that were changed, as by `Client.change_many`."""

        async def act(ids: Sequence[int]) -> int:
            return len(await self._client.change_many(ids, by=by, **changes))

        await act([])  # refuses wrong changes also when no task matches
        return await self._each_page("change", act)

    async def _each_page(
        self, action: Action, act: Callable[[Sequence[int]], Awaitable[int]]
    ) -> int:
        return sum([await act(ids) async for ids in self._pages(CHANGES[action])])

    async def _pages(self, statuses: Sequence[str]) -> AsyncIterator[list[int]]:
        """Newest first: tasks that are enqueued meanwhile are left out."""
        before: int | None = None
        while True:
            params = {**self._filter, "statuses": self._among(statuses), "before_id": before}
            rows = await self._reads.fetch_dicts("select_task_ids", {**params, "limit": PAGE})
            if rows:
                yield [row["id"] for row in rows]
            if len(rows) < PAGE:
                return
            before = rows[-1]["id"]

    def _among(self, statuses: Sequence[str]) -> str:
        return text_array([one for one in statuses if one in self._statuses])


def _checked(chosen: TaskFilter) -> Sequence[str]:
    """The statuses of the filter."""
    conditions = {name: value for name, value in chosen.items() if value is not None}
    everything = conditions.pop("everything", False)
    if not (conditions or everything):
        raise InvalidInput("choose tasks by pipeline, statuses, batch_id or code, or everything")
    for name in ("pipeline", "code"):
        value = conditions.get(name, "")
        if not isinstance(value, str) or not is_storable(value):
            raise InvalidInput(f"{value!r} is not a {name}")
    batch_id = conditions.get("batch_id", 1)
    if not isinstance(batch_id, int) or not 0 < batch_id < 2**63:
        raise InvalidInput(f"{batch_id!r} is not an id")
    given = chosen.get("statuses")
    statuses = STATUSES if given is None else list(given)
    unknown = [one for one in statuses if one not in STATUSES]
    if unknown:
        raise InvalidInput(f"{', '.join(unknown)} is not a status; known: {', '.join(STATUSES)}")
    return statuses
