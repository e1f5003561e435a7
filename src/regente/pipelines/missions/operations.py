"""What people do with missions: create, queue, list, cancel and retry them, start and stop the
orchestrator, change settings. For the API and the command line alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from psycopg import AsyncConnection

from regente.engine.client import Client
from regente.engine.database import FilteredReads
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.engine.holding import HELD
from regente.engine.models import Why
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.dispatcher import open_dispatcher
from regente.pipelines.missions.queries import LISTS, QUERIES
from regente.pipelines.missions.read_models import (
    MISSION_STATUSES,
    Mission,
    MissionFilter,
    Orchestrator,
)
from regente.pipelines.missions.settings import (
    MissionSettings,
    checked_setting,
    read_settings,
    read_settings_on,
)
from regente.pipelines.missions.why import explain_waiting
from regente.queries import LendsConnections, Row

MAX_PAGE = 1000


class MissionOperations:
    """`reads` is where lists are read, if not on the engine's own connections."""

    def __init__(self, client: Client, reads: LendsConnections | None = None) -> None:
        client.registry.declare("missions", "orchestrator")
        self._client = client
        self._database = client.database
        self._reads = reads or FilteredReads(client.database)

    async def create(
        self, missions: Sequence[MissionArgs], *, queue: bool = False, by: str = "user"
    ) -> list[int]:
        """Store the missions as drafts (the bank), or, with `queue`, in the queue. All or none."""
        if not missions:
            return []
        async with self._database.transaction() as connection:
            args = [mission.model_dump(mode="json") for mission in missions]
            ids = await self._client.enqueue_many(
                "missions", args, run_at=HELD, draft=True, connection=connection
            )
            await QUERIES.execute(connection, "new_runs", ids=ids, queued=False)
            if queue:
                await self._queue(connection, ids, by)
        return ids

    async def queue(self, ids: Sequence[int], *, by: str = "user") -> list[int]:
        """Queue the drafts among these missions, and return their ids. Opens the orchestrator,
        unless a person stopped it or `auto_start` is off."""
        async with self._database.transaction() as connection:
            return await self._queue(connection, ids, by)

    async def _queue(
        self, connection: AsyncConnection[Any], ids: Sequence[int], by: str
    ) -> list[int]:
        settings = await read_settings_on(connection)
        queued = await self._client.queue(ids, by=by, connection=connection)
        await QUERIES.execute(connection, "queue_runs", ids=queued)
        if queued and settings.auto_start:
            await open_dispatcher(self._client, connection, by=by, on_request=False)
        return queued

    async def cancel(self, mission_id: int, *, by: str = "user") -> str:
        """`canceled` when it was not running; `canceling` while its worker is told to stop."""
        await self.get(mission_id)
        return await self._client.cancel(mission_id, by=by)

    async def cancel_many(self, ids: Sequence[int], *, by: str = "user") -> dict[str, int]:
        return await self._client.cancel_many(await self._only_missions(ids), by=by)

    async def retry(self, mission_id: int, *, by: str = "user") -> None:
        """Queue a failed or canceled mission again, with all its retries. A finished extraction is
        not repeated."""
        mission = await self.get(mission_id)
        if mission.status not in ("failed", "canceled"):
            raise IllegalTransition(
                f"mission {mission_id} is {mission.status}: only failed and canceled ones "
                "can be retried"
            )
        await self.retry_many([mission_id], by=by)

    async def retry_many(self, ids: Sequence[int], *, by: str = "user") -> list[int]:
        missions = await self._only_missions(ids)
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "fresh_runs", ids=missions)
        done = await self._client.retry_many(missions, by=by)
        if done and (await read_settings(self._database)).auto_start:
            async with self._database.transaction() as connection:
                await open_dispatcher(self._client, connection, by=by, on_request=False)
        return done

    # Reads.

    async def get(self, mission_id: int) -> Mission:
        found = await self.find(ids=[mission_id])
        if not found:
            raise NotFound(f"there is no mission {mission_id}")
        return found[0]

    async def find(
        self,
        chosen: MissionFilter | None = None,
        *,
        ids: Sequence[int] | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[Mission]:
        """Newest first; the next page begins with `before_id` of the last one seen."""
        chosen = chosen or MissionFilter()
        rows = await LISTS.fetch_all(
            self._reads,
            "list_missions_by_day" if chosen.by_day and ids is None else "list_missions",
            **chosen.params(),
            ids=_ids(ids),
            before_id=before_id,
            limit=max(1, min(limit, MAX_PAGE + 1)),
        )
        return [Mission(**row) for row in rows]

    async def ids(self, chosen: MissionFilter | None = None, limit: int = 1_000_000) -> list[int]:
        """Oldest first."""
        params = (chosen or MissionFilter()).params()
        rows = await LISTS.fetch_all(self._reads, "select_missions", **params, limit=limit)
        return [row["id"] for row in rows]

    async def count(self, chosen: MissionFilter, cap: int) -> int:
        """The number of missions that match; `cap + 1` for more than `cap`."""
        row = await LISTS.fetch_one(self._reads, "count_missions", **chosen.params(), cap=cap)
        return row["count"] if row else 0

    async def counts(self, cap: int | None = None) -> dict[str, int]:
        """By status; those between two attempts count as running. `cap + 1` for more than `cap`."""
        rows = await LISTS.fetch_all(self._reads, "missions_by_state", cap=cap)
        found: dict[str, int] = {row["status"]: row["count"] for row in rows}
        between = await LISTS.fetch_one(self._reads, "missions_between_attempts", cap=cap)
        waiting = between["count"] if between else 0
        found["running"] += waiting
        if cap is None or found["queued"] <= cap:
            found["queued"] = max(0, found["queued"] - waiting)
        return found

    async def timeline(self, mission_id: int) -> list[Row]:
        """The mission's log (10.2), with the events of its sessions."""
        await self.get(mission_id)
        return await QUERIES.fetch_all(self._database, "timeline", mission_id=mission_id)

    async def failed_items(self, mission_id: int, limit: int = MAX_PAGE) -> list[Row]:
        """The rows that the writer could not store."""
        return await QUERIES.fetch_all(
            self._database, "failed_items", mission_id=mission_id, limit=limit
        )

    async def why(self, mission_id: int) -> Why:
        """Explain why the mission is not running, or what it does."""
        mission = await self.get(mission_id)
        engine = await self._client.why(mission_id)
        rows = await QUERIES.fetch_all(self._database, "why_not", mission_id=mission_id)
        return explain_waiting(mission.status, rows[0], engine)

    # The orchestrator.

    async def orchestrator(self) -> Orchestrator:
        row = (await QUERIES.fetch_all(self._database, "orchestrator"))[0]
        return Orchestrator(**{name: row[name] for name in Orchestrator.model_fields})

    async def start(self, *, by: str = "user") -> Orchestrator:
        async with self._database.transaction() as connection:
            await open_dispatcher(self._client, connection, by=by, on_request=True)
        return await self.orchestrator()

    async def stop(self, *, now: bool = False, by: str = "user") -> Orchestrator:
        """Assign no more missions. Running ones may finish, or, with `now`, go back to the
        queue."""
        state = "halting" if now else "draining"
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "lock_orchestrator")
            if not await QUERIES.fetch_all(connection, "stop_orchestrator", state=state, by=by):
                await QUERIES.execute(connection, "keep_closed", by=by)
            details = json.dumps({"by": by, "now": now})
            await QUERIES.execute(
                connection, "log_action", event="orchestrator_stopped", details=details
            )
        return await self.orchestrator()

    # Settings.

    async def settings(self) -> MissionSettings:
        return await read_settings(self._database)

    async def set(self, key: str, value: Any, *, by: str = "user") -> MissionSettings:
        checked = checked_setting(key, value)
        before = asdict(await self.settings())[key]
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "put_setting", key=key, value=json.dumps(checked))
            details = json.dumps({"by": by, "key": key, "before": before, "after": checked})
            await QUERIES.execute(
                connection, "log_action", event="setting_changed", details=details
            )
        return await self.settings()

    async def _only_missions(self, ids: Sequence[int]) -> list[int]:
        found: list[int] = []
        for start in range(0, len(ids), MAX_PAGE):
            found += [
                mission.id
                for mission in await self.find(ids=ids[start : start + MAX_PAGE], limit=MAX_PAGE)
            ]
        return found


def mission_filter(statuses: Sequence[str] | None) -> MissionFilter:
    """Checked, with an error that people understand."""
    unknown = [status for status in statuses or () if status not in MISSION_STATUSES]
    if unknown:
        raise InvalidInput(
            f"{', '.join(unknown)} is not a status; known: {', '.join(MISSION_STATUSES)}"
        )
    return MissionFilter.model_validate({"statuses": statuses and list(dict.fromkeys(statuses))})


def _ids(values: Sequence[int] | None) -> list[int] | None:
    if values is None:
        return None
    wrong = [
        value
        for value in values
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63
    ]
    if wrong:
        raise InvalidInput(f"{wrong[0]!r} is not an id")
    return list(values)
