"""The client: everything a program or a console does with tasks, pipelines, batches and schedules,
without running any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

from regente.engine.codec import encode, is_storable
from regente.engine.database import Database, fetch_on, number_array, text_array
from regente.engine.enqueue import Enqueuer, NewTask, check_options, goes_by_copy
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound
from regente.engine.log import current_request
from regente.engine.models import STATUSES, BatchInfo, Event, Resumed, RunnerInfo, TaskInfo
from regente.engine.pipeline import Registry
from regente.engine.watchdog.schedules import next_time
from regente.engine.why import Why, explain

MAX_PAGE = 1000
MAX_STALL_SECONDS = 366 * 86_400

_POSITION = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")


class Client:
    def __init__(self, database: Database, registry: Registry) -> None:
        self.database = database
        self.registry = registry
        self._intake = Enqueuer(database, registry)

    def start(self) -> None:
        self._intake.start()

    async def stop(self) -> None:
        await self._intake.stop()

    # Enqueue.

    async def enqueue(
        self,
        pipeline: str,
        args: Any = None,
        *,
        key: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        batch: int | str | None = None,
        max_attempts: int | None = None,
        draft: bool = False,
        connection: AsyncConnection[Any] | None = None,
    ) -> int:
        """Store one task and return its id. It is durable when this returns.

        With `key`, a task of the same pipeline and key is stored once: the second call returns the
        first one's id. Higher `priority` comes first. `batch` is a batch's id, or its name: a new
        name opens one. `draft` leaves it in the bank. With `connection` it becomes part of the
        caller's own transaction.
        """
        await self._intake.check_pipeline(pipeline)
        text = self._intake.checked_args(pipeline, {} if args is None else args)
        check_options([key], priority, run_at, max_attempts)
        batch_id = await self._batch_id(batch, connection)
        task = NewTask(pipeline, text, key, priority, run_at, max_attempts, batch_id, draft)
        return await self._intake.one(task, connection)

    async def enqueue_many(
        self,
        pipeline: str,
        args: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        batch: int | str | None = None,
        max_attempts: int | None = None,
        draft: bool = False,
        connection: AsyncConnection[Any] | None = None,
    ) -> list[int]:
        """Store many tasks, all or none, and return their ids in order."""
        await self._intake.check_pipeline(pipeline)
        every = list(args)
        if keys is not None and len(keys) != len(every):
            raise InvalidInput(f"{len(keys)} keys for {len(every)} tasks")
        check_options(keys or (), priority, run_at, max_attempts)
        like = NewTask(pipeline, "", None, priority, run_at, max_attempts, None, draft)
        if (
            connection is None
            and keys is None
            and not isinstance(batch, str)
            and goes_by_copy(like, len(every))
        ):
            return await self._intake.alike(
                like._replace(batch_id=await self._batch_id(batch, None)), every
            )
        texts = [
            self._intake.checked_args(pipeline, one) for one in every
        ]  # before a batch is opened for them
        batch_id = await self._batch_id(batch, connection)
        tasks = [
            NewTask(pipeline, text, key, priority, run_at, max_attempts, batch_id, draft)
            for text, key in zip(texts, keys or [None] * len(texts), strict=True)
        ]
        return await self._intake.many(tasks, connection)

    async def queue(
        self,
        ids: Sequence[int],
        *,
        by: str | None = None,
        connection: AsyncConnection[Any] | None = None,
    ) -> list[int]:
        """Move drafts from the bank into the queue; returns those that were moved."""
        params = {"ids": _ids(ids), "details": _by(by)}
        if connection is not None:
            return [row[0] for row in await fetch_on(connection, "queue_drafts", params)]
        return [row[0] for row in await self.database.fetch("queue_drafts", params)]

    async def release(
        self, ids: Sequence[int], *, connection: AsyncConnection[Any] | None = None
    ) -> list[int]:
        """Make held tasks due (`task.hold`, or queued with `run_at=HELD`); returns those that were
        held."""
        params = {"ids": _ids(ids)}
        if connection is not None:
            return [row[0] for row in await fetch_on(connection, "release", params)]
        return [row[0] for row in await self.database.fetch("release", params)]

    # Queries.

    async def get(self, task_id: int) -> TaskInfo:
        rows = await self.database.fetch_dicts("get_tasks", {"ids": _ids([task_id])})
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        return TaskInfo(**rows[0])

    async def tasks(
        self,
        *,
        pipeline: str | None = None,
        statuses: Sequence[str] | None = None,
        batch_id: int | None = None,
        code: str | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[TaskInfo]:
        """Newest first. `before_id`, the last id of a page, gives the next page."""
        unknown = [status for status in statuses or () if status not in STATUSES]
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} is not a status; known: {', '.join(STATUSES)}"
            )
        params = {
            "pipeline": pipeline,
            "statuses": None if statuses is None else text_array(list(statuses)),
            "batch_id": batch_id,
            "code": code,
            "before_id": before_id,
            "limit": max(1, min(limit, MAX_PAGE)),
        }
        return [TaskInfo(**row) for row in await self.database.fetch_dicts("list_tasks", params)]

    async def counts(self, pipeline: str | None = None) -> dict[str, int]:
        """How many tasks are in each state."""
        return dict.fromkeys(STATUSES, 0) | dict(
            await self.database.fetch("counts", {"pipeline": pipeline})
        )

    async def why(self, task_id: int) -> Why:
        """Why the task is not running, or what it does."""
        rows = await self.database.fetch_dicts("why", {"task_id": _id(task_id)})
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        return explain(rows[0])

    async def steps(self, task_id: int, limit: int = MAX_PAGE) -> list[dict[str, Any]]:
        return await self.database.fetch_dicts(
            "steps_of_task", {"task_id": task_id, "limit": limit}
        )

    async def task_events(self, task_id: int, limit: int = MAX_PAGE) -> list[Event]:
        rows = await self.database.fetch_dicts(
            "events_of_task", {"task_id": task_id, "limit": limit}
        )
        return [Event(**row) for row in rows]

    async def failures(self, task_id: int, limit: int = MAX_PAGE) -> list[dict[str, Any]]:
        """One row per failed attempt, newest first, with the list of its snapshots."""
        return await self.database.fetch_dicts(
            "failures_of_task", {"task_id": task_id, "limit": limit}
        )

    async def snapshot(self, failure_id: int, name: str) -> tuple[str, bool, bytes]:
        rows = await self.database.fetch("snapshot", {"failure_id": failure_id, "name": name})
        if not rows:
            raise NotFound(f"failure {failure_id} has no snapshot {name!r}")
        return rows[0][0], rows[0][1], bytes(rows[0][2])

    async def runners(self, *, everyone: bool = False, limit: int = 100) -> list[RunnerInfo]:
        params = {"id": None, "everyone": everyone, "limit": limit}
        return [
            RunnerInfo(**row) for row in await self.database.fetch_dicts("list_runners", params)
        ]

    async def runner(self, runner_id: int) -> RunnerInfo:
        params = {"id": _id(runner_id), "everyone": True, "limit": 1}
        rows = await self.database.fetch_dicts("list_runners", params)
        if not rows:
            raise NotFound(f"there is no runner {runner_id}")
        return RunnerInfo(**rows[0])

    async def feed(self, after: str = "0-0", limit: int = MAX_PAGE) -> list[Event]:
        """Events after the given position, in their final order: no later event appears before a
        returned one."""
        if not _POSITION.fullmatch(after):
            raise InvalidInput(f"{after!r} is not a position in the feed")
        txid, _, event_id = after.partition("-")
        params = {"after_txid": txid, "after_id": int(event_id), "limit": max(1, limit)}
        return [Event(**row) for row in await self.database.fetch_dicts("read_feed", params)]

    # Actions on tasks.

    async def cancel(self, task_id: int, *, by: str | None = None) -> str:
        """`canceled` when the task was waiting; `canceling` when its runner was asked to stop
        it."""
        rows = await self.database.fetch_dicts(
            "cancel", {"ids": _ids([task_id]), "details": _by(by)}
        )
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        if rows[0]["requested"]:
            return "canceling"
        if rows[0]["after"] != "canceled":
            raise IllegalTransition(
                f"task {task_id} is {rows[0]['before']}: there is nothing to cancel"
            )
        return "canceled"

    async def cancel_many(self, ids: Sequence[int], *, by: str | None = None) -> dict[str, int]:
        rows = await self.database.fetch_dicts("cancel", {"ids": _ids(ids), "details": _by(by)})
        ended = sum(row["before"] in ("draft", "queued") for row in rows)
        return {"canceled": ended, "canceling": sum(row["requested"] for row in rows)}

    async def retry(self, task_id: int, *, by: str | None = None) -> None:
        """Queue a failed, canceled or skipped task again, with all its tries. Finished steps are
        not repeated."""
        rows = await self.database.fetch_dicts(
            "retry", {"ids": _ids([task_id]), "details": _by(by)}
        )
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        if not rows[0]["done"]:
            raise IllegalTransition(
                f"task {task_id} is {rows[0]['before']}: only failed, canceled and skipped "
                "tasks can be retried"
            )

    async def retry_many(self, ids: Sequence[int], *, by: str | None = None) -> list[int]:
        rows = await self.database.fetch_dicts("retry", {"ids": _ids(ids), "details": _by(by)})
        return [row["id"] for row in rows if row["done"]]

    async def discard(self, ids: Sequence[int], *, by: str | None = None) -> list[int]:
        """Discard dead letters: they become `canceled`."""
        return [
            row[0]
            for row in await self.database.fetch("discard", {"ids": _ids(ids), "details": _by(by)})
        ]

    async def recover_stuck(
        self,
        stuck_seconds: float,
        *,
        pipeline: str | None = None,
        task_id: int | None = None,
        by: str | None = None,
    ) -> list[int]:
        """Queue running tasks again that have had no heartbeat for so long. The fence refuses the
        writes of their former attempts."""
        params = {"stuck_seconds": stuck_seconds, "pipeline": pipeline, "id": task_id, "by": by}
        return [row[0] for row in await self.database.fetch("recover_stuck", params)]

    async def give_up_old(
        self,
        seconds: float,
        *,
        pipeline: str | None = None,
        between_attempts: bool = False,
        by: str | None = None,
    ) -> list[int]:
        """Fail running tasks that were first started so long ago; with `between_attempts` also
        those that wait for their next attempt."""
        what = f"{seconds / 3600:g} hours"
        params = {
            "seconds": seconds,
            "what": what,
            "pipeline": pipeline,
            "between_attempts": between_attempts,
            "by": by,
        }
        return [row[0] for row in await self.database.fetch("give_up_old", params)]

    # Pipelines.

    async def pause(self, pipeline: str, *, by: str | None = None) -> None:
        """Stop claiming tasks of the pipeline; running ones continue."""
        await self._intake.check_pipeline(pipeline)
        await self.database.fetch(
            "pause_pipeline", {"name": pipeline, "paused": True, "details": _by(by)}
        )

    async def resume(self, pipeline: str, *, by: str | None = None) -> None:
        await self._intake.check_pipeline(pipeline)
        await self.database.fetch(
            "pause_pipeline", {"name": pipeline, "paused": False, "details": _by(by)}
        )

    async def pipelines(self) -> list[dict[str, Any]]:
        return await self.database.fetch_dicts("pipelines")

    # Batches.

    async def open_batch(
        self,
        name: str,
        *,
        stall_after: float = 300.0,
        max_resumes: int = 3,
        details: dict[str, Any] | None = None,
    ) -> int:
        """The id of the batch with this name, which is created if there is none."""
        params = _new_batch(name, stall_after, max_resumes, details)
        return int((await self.database.fetch("open_batch", params))[0][0])

    async def batches(self, limit: int = 100) -> list[BatchInfo]:
        return await self.find_batches(limit=limit)

    async def find_batches(
        self,
        *,
        statuses: Sequence[str] | None = None,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[BatchInfo]:
        """Newest first; the next page begins with `before_id` of the last one seen."""
        return await self._ledgers(limit, statuses=statuses, before_id=before_id)

    async def batch(self, batch: int | str) -> BatchInfo:
        found = await (
            self._ledgers(1, id=_id(batch))
            if isinstance(batch, int)
            else self._ledgers(1, name=str(batch))
        )
        if not found:
            raise NotFound(f"there is no batch {batch}")
        return found[0]

    async def resume_batch(self, batch: int | str, *, by: str | None = None) -> Resumed:
        """Release the waiting tasks of a stalled batch. Idempotent: of two concurrent callers one
        resumes it, the other is told so."""
        store = await self.batch(batch)
        rows = await self.database.fetch("resume_batch", {"batch_id": store.id, "details": _by(by)})
        if rows:
            return Resumed(True, "resumed", rows[0][2], rows[0][1])
        store = await self.batch(store.id)
        return Resumed(
            False, f"the batch is {store.status}: there is nothing to resume", 0, store.resumes
        )

    async def reprocess_batch(
        self,
        batch: int | str,
        *,
        codes: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        by: str | None = None,
    ) -> list[int]:
        """Retry the batch's failed tasks: all of them, those with one of the codes, or those with
        one of the ids."""
        params = {
            "batch_id": (await self.batch(batch)).id,
            "codes": None if codes is None else text_array(list(codes)),
            "ids": None if ids is None else _ids(ids),
        }
        return await self.retry_many(
            [row[0] for row in await self.database.fetch("batch_failures", params)], by=by
        )

    async def cancel_batch(self, batch: int | str, *, by: str | None = None) -> dict[str, int]:
        """Cancel the batch's tasks that have not ended."""
        store = await self.batch(batch)
        await self.database.fetch(
            "close_canceled_batch", {"batch_id": store.id, "details": _by(by)}
        )
        rest = [row[0] for row in await self.database.fetch("batch_rest", {"batch_id": store.id})]
        return await self.cancel_many(rest, by=by)

    # Schedules.

    async def schedule(
        self,
        name: str,
        pipeline: str,
        cron: str,
        args: Any = None,
        *,
        timezone: str = "UTC",
        priority: int = 0,
    ) -> datetime:
        """Queue a task at every time of the cron expression; returns the first. Scheduling the same
        name replaces it."""
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not is_storable(name):
            raise InvalidInput("a schedule's name has 1 to 200 characters")
        await self._intake.check_pipeline(pipeline)
        check_options((), priority, None, None)
        now = (await self.database.fetch("now"))[0][0]
        first = next_time(cron, timezone, now)
        params = {
            "name": name,
            "pipeline": pipeline,
            "args": self._intake.checked_args(pipeline, {} if args is None else args),
            "cron": cron,
            "timezone": timezone,
            "priority": priority,
            "next_at": first,
        }
        await self.database.fetch("put_schedule", params)
        return first

    async def unschedule(self, name: str) -> None:
        if not await self.database.fetch("remove_schedule", {"name": name}):
            raise NotFound(f"there is no schedule {name!r}")

    async def schedules(self) -> list[dict[str, Any]]:
        return await self.database.fetch_dicts("list_schedules")

    # Private.

    async def _batch_id(
        self, batch: int | str | None, connection: AsyncConnection[Any] | None
    ) -> int | None:
        if batch is None or not isinstance(batch, str):
            return None if batch is None else _id(batch)
        if connection is None:
            return await self.open_batch(batch)
        return int((await fetch_on(connection, "open_batch", _new_batch(batch)))[0][0])

    async def _ledgers(self, limit: int, **chosen: Any) -> list[BatchInfo]:
        every = dict.fromkeys(("id", "name", "statuses", "before_id"))
        params = {**every, **chosen, "limit": limit}
        return [BatchInfo(**row) for row in await self.database.fetch_dicts("batch_ledger", params)]


def _new_batch(
    name: str,
    stall_after: float = 300.0,
    max_resumes: int = 3,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    if not name or len(name) > 200 or not is_storable(name):
        raise InvalidInput("a batch's name has 1 to 200 characters")
    if not 0 <= stall_after <= MAX_STALL_SECONDS:
        raise InvalidInput(f"stall_after is 0 to {MAX_STALL_SECONDS:,} seconds, not {stall_after}")
    if not 0 <= max_resumes <= 1000:
        raise InvalidInput(f"max_resumes is 0 to 1000, not {max_resumes}")
    return {
        "name": name,
        "stall_after_seconds": stall_after,
        "max_resumes": max_resumes,
        "details": encode(details or {}, what="the batch's details"),
    }


def _by(who: str | None) -> str | None:
    """The event's details: who did it, and by which request."""
    if who is None:
        return None
    request = current_request.get()
    return encode({"by": who} | ({"request_id": request} if request else {}), what="who did it")


def _ids(values: Iterable[object]) -> str:
    return number_array([_id(value) for value in values])


def _id(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63:
        raise InvalidInput(f"{value!r} is not an id")
    return value
