"""The bulk actions on missions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from regente.api.bulk.actions import LIVE, BulkAction
from regente.api.queries import LimitedDatabase
from regente.app import Regente
from regente.pipelines.missions.queries import ADDITIONS


class MissionAction(StrEnum):
    QUEUE = "missions.queue"
    CANCEL = "missions.cancel"
    RETRY = "missions.retry"


async def _queue(app: Regente, database: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    rows = await ADDITIONS.fetch_all(database, "missions_among", ids=list(ids))
    return len(await app.missions.queue([row["id"] for row in rows], by=by)) if rows else 0


async def _cancel(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return sum((await app.missions.cancel_many(ids, by=by)).values())


async def _retry(app: Regente, _: LimitedDatabase, ids: Sequence[int], by: str) -> int:
    return await retry(app, ids, by)


async def retry(app: Regente, ids: Sequence[int], by: str) -> int:
    return len(await app.missions.retry_many(ids, by=by))


ACTIONS: dict[str, BulkAction] = {
    MissionAction.QUEUE: BulkAction(_queue, ("draft",), "missions"),
    MissionAction.CANCEL: BulkAction(_cancel, LIVE, "missions"),
    MissionAction.RETRY: BulkAction(_retry, ("failed", "canceled"), "missions"),
}
