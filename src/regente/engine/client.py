"""The client: everything a program or a console does with tasks, pipelines, batches and schedules,
without running any."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection
from typing_extensions import Unpack

from regente.engine.changes import Changes, TaskChanges, refused
from regente.engine.codec import MAX_ARGS_BYTES, encode, is_storable
from regente.engine.database import (
    ClientDatabase,
    ReadsRows,
    fetch_on,
    number_array,
    text_array,
)
from regente.engine.effects import refuse_effects
from regente.engine.endings import Endings
from regente.engine.enqueue import (
    BY_PIPELINE,
    Enqueuer,
    NewTask,
    check_options,
    goes_by_copy,
)
from regente.engine.errors import IllegalTransition, InvalidInput, NotFound, UnknownPosition
from regente.engine.hints import Hints, NewlyDue, new_tasks
from regente.engine.lane_operations import LaneOperations
from regente.engine.log import current_request
from regente.engine.models import (
    STATUSES,
    Attempt,
    BatchInfo,
    Decision,
    Event,
    Resumed,
    RunnerInfo,
    ScheduleRun,
    SignalWaitInfo,
    TaskFailed,
    TaskInfo,
    Why,
)
from regente.engine.pipeline import Registry, in_seconds
from regente.engine.schedule_operations import (
    CatchUp,
    Overlap,
    ScheduleOperations,
    ScheduleRules,
    with_time,
)
from regente.engine.task_selection import TaskFilter, TaskSelection
from regente.engine.uniqueness import Enqueued, OnConflict, Unique, checked_uniqueness
from regente.engine.why import explain

MAX_PAGE = 1000
MAX_STALL_SECONDS = 366 * 86_400

NOT_GIVEN: Any = object()

_POSITION = re.compile(r"([0-9]{1,18})-([0-9]{1,18})(?:-([0-9a-f]{8}))?")


class Client:
    """`reads` is the database for queries, if it differs from `database`."""

    def __init__(
        self, database: ClientDatabase, registry: Registry, reads: ReadsRows | None = None
    ) -> None:
        self.database = database
        self._reads = reads or database
        self.registry = registry
        self._hints = Hints(database)
        self._intake = Enqueuer(database, registry, self._hints)
        self._changes = TaskChanges(database, self._intake, self._hints)
        self._endings = Endings(self._reads)
        self._schedules = ScheduleOperations(database, self._reads)

    def start(self) -> None:
        self._intake.start()
        self._hints.start()

    async def stop(self) -> None:
        await self._endings.stop()
        await self._intake.stop()
        await self._hints.stop()

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
        lane: str | None = BY_PIPELINE,
        unique: Unique = "ever",
        on_conflict: OnConflict = "return",
        connection: AsyncConnection[Any] | None = None,
    ) -> Enqueued:
        """Store one task and return its id. It is durable when this returns.

        With `key`, a task of the same pipeline and key is stored once: the second call returns the
        first one's id, with `created` false. `unique` says for how long the key belongs to the
        task: for ever, until it is done, until it is started, or for a time, like `hours(24)`.
        `on_conflict="error"` raises `AlreadyEnqueued` instead; with `"replace"` a task that has not
        started takes the new arguments and options.

        Higher `priority` comes first. `batch` is a batch's id, or its name: a new name opens one.
        `draft` leaves it in the bank. `lane` is what it shares limits with, by default what the
        pipeline's own function tells; None for no lane. With `connection` it becomes part of the
        caller's own transaction.
        """
        refuse_effects(connection, "the id of a new task")
        await self._intake.check_pipeline(pipeline, connection)
        text, lane = self._intake.checked(pipeline, {} if args is None else args, lane)
        check_options([key], priority, run_at, max_attempts)
        uniqueness = checked_uniqueness(key, unique, on_conflict)
        batch_id = await self._batch_id(batch, connection)
        task = NewTask(pipeline, text, key, priority, run_at, max_attempts, batch_id, draft, lane)
        return await self._intake.one(task, connection, uniqueness)

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
        lane: str | None = BY_PIPELINE,
        connection: AsyncConnection[Any] | None = None,
    ) -> list[int]:
        """Store many tasks, all or none, and return their ids in order."""
        refuse_effects(connection, "the ids of new tasks")
        await self._intake.check_pipeline(pipeline, connection)
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
                like._replace(batch_id=await self._batch_id(batch, None)), every, lane
            )
        texts = [
            self._intake.checked(pipeline, one, lane) for one in every
        ]  # before a batch is opened for them
        batch_id = await self._batch_id(batch, connection)
        tasks = [
            NewTask(pipeline, text, key, priority, run_at, max_attempts, batch_id, draft, own_lane)
            for (text, own_lane), key in zip(texts, keys or [None] * len(texts), strict=True)
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
        return await self._make_due(
            "queue_drafts", {"ids": _ids(ids), "details": _by(by)}, connection
        )

    async def release(
        self, ids: Sequence[int], *, connection: AsyncConnection[Any] | None = None
    ) -> list[int]:
        """Make held tasks due (`task.hold`, or queued with `run_at=HELD`); returns those that were
        held."""
        return await self._make_due("release", {"ids": _ids(ids)}, connection)

    # Queries.

    async def get(self, task_id: int) -> TaskInfo:
        rows = await self._reads.fetch_dicts("get_tasks", {"ids": _ids([task_id])})
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        return TaskInfo(**rows[0])

    async def wait(self, task_id: int, timeout: float | None = None) -> Any:
        """Wait until the task has ended, and return its result; None for one that was skipped.

        Raises `TaskFailed` for a dead letter or a canceled task, `TimeoutError` after `timeout`
        seconds. In a pipeline use `task.spawn`, which waits without a slot.
        """
        await self.get(task_id)
        async with asyncio.timeout(timeout):
            await self._endings.ended(task_id)
        ended = await self.get(task_id)
        if ended.status in ("failed", "canceled"):
            why = f": {ended.error_code}: {ended.error_message}" if ended.error_code else ""
            raise TaskFailed(f"task {task_id} is {ended.status}{why}", ended)
        return ended.result

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
        return [TaskInfo(**row) for row in await self._reads.fetch_dicts("list_tasks", params)]

    async def counts(self, pipeline: str | None = None) -> dict[str, int]:
        """How many tasks are in each state."""
        return dict.fromkeys(STATUSES, 0) | dict(
            await self.database.fetch("counts", {"pipeline": pipeline})
        )

    async def why(self, task_id: int) -> Why:
        """Explain why the task is not running, or what it does."""
        rows = await self._reads.fetch_dicts("why", {"task_id": _id(task_id)})
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        return explain(rows[0])

    async def steps(self, task_id: int, limit: int = MAX_PAGE) -> list[dict[str, Any]]:
        return await self._reads.fetch_dicts("steps_of_task", {"task_id": task_id, "limit": limit})

    async def task_events(self, task_id: int, limit: int = MAX_PAGE) -> list[Event]:
        rows = await self._reads.fetch_dicts("events_of_task", {"task_id": task_id, "limit": limit})
        return [Event(**row) for row in rows]

    async def attempts(self, task_id: int, limit: int = 100) -> list[Attempt]:
        """Its attempts, the latest first: which runner ran them, with which version of the code."""
        params = {"task_id": _id(task_id), "limit": max(1, min(limit, MAX_PAGE))}
        return [Attempt(**row) for row in await self._reads.fetch_dicts("attempts_of_task", params)]

    async def failures(self, task_id: int, limit: int = MAX_PAGE) -> list[dict[str, Any]]:
        """One row per failed attempt, newest first, with the list of its snapshots."""
        return await self._reads.fetch_dicts(
            "failures_of_task", {"task_id": task_id, "limit": limit}
        )

    async def snapshot(self, failure_id: int, name: str) -> tuple[str, bool, bytes]:
        rows = await self.database.fetch("snapshot", {"failure_id": failure_id, "name": name})
        if not rows:
            raise NotFound(f"failure {failure_id} has no snapshot {name!r}")
        return rows[0][0], rows[0][1], bytes(rows[0][2])

    async def runners(self, *, everyone: bool = False, limit: int = 100) -> list[RunnerInfo]:
        params = {"id": None, "everyone": everyone, "limit": limit}
        return [RunnerInfo(**row) for row in await self._reads.fetch_dicts("list_runners", params)]

    async def runner(self, runner_id: int) -> RunnerInfo:
        params = {"id": _id(runner_id), "everyone": True, "limit": 1}
        rows = await self._reads.fetch_dicts("list_runners", params)
        if not rows:
            raise NotFound(f"there is no runner {runner_id}")
        return RunnerInfo(**rows[0])

    async def feed(self, after: str = "0-0", limit: int = MAX_PAGE) -> list[Event]:
        """Events after the given position, in their final order: no later event appears before a
        returned one. `UnknownPosition` when the database failed over or was restored since."""
        found = _POSITION.fullmatch(after)
        if found is None:
            raise InvalidInput(f"{after!r} is not a position in the feed")
        txid, event_id, timeline = found.groups()
        params = {"after_txid": txid, "after_id": int(event_id), "limit": max(1, limit)}
        rows = await self._reads.fetch_dicts("read_feed", params)
        here, timelines = rows[0]["timeline"], rows[0]["timelines"]
        if here != (timeline or here) or (timeline is None and txid != "0" and timelines > 1):
            raise UnknownPosition(
                f"the database failed over or was restored after {after}: begin again from 0-0"
            )
        events = [row for row in rows if row["id"] is not None]
        return [Event(**_without(row, "timeline", "timelines")) for row in events]

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

    async def change(
        self,
        task_id: int,
        *,
        args: Any = NOT_GIVEN,
        by: str | None = None,
        **changes: Unpack[Changes],
    ) -> TaskInfo:
        """Change a task that waits: `priority`, `run_at` (None: now), `lane`, `max_attempts`, and,
        before its first attempt, `args`."""
        found = await self.get(task_id)
        with_args = args is not NOT_GIVEN
        if with_args:
            done = await self._changes.apply_args(found, args, changes, _by(by))
        else:
            done = bool(await self._changes.apply([task_id], changes, _by(by)))
        found = await self.get(task_id)
        if not done:
            raise refused(found, changes, with_args=with_args)
        return found

    async def change_many(
        self, ids: Sequence[int], *, by: str | None = None, **changes: Unpack[Changes]
    ) -> list[int]:
        """As `change`, without arguments; returns the ids of those that waited."""
        _ids(ids)
        return await self._changes.apply(ids, changes, _by(by))

    def select_tasks(self, **chosen: Unpack[TaskFilter]) -> TaskSelection:
        """The tasks that match `pipeline`, `statuses`, `batch_id` and `code`, or `everything`: to
        preview, cancel, retry, discard or change them all."""
        return TaskSelection(self, self._reads, chosen)

    async def cancel_many(self, ids: Sequence[int], *, by: str | None = None) -> dict[str, int]:
        """How many this call canceled, and how many it asked to stop."""
        rows = await self.database.fetch_dicts("cancel", {"ids": _ids(ids), "details": _by(by)})
        ended = sum(row["before"] in ("draft", "queued") for row in rows)
        return {"canceled": ended, "canceling": sum(row["asked"] for row in rows)}

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
        self._hints.send(_requeued(rows))

    async def retry_many(self, ids: Sequence[int], *, by: str | None = None) -> list[int]:
        rows = await self.database.fetch_dicts("retry", {"ids": _ids(ids), "details": _by(by)})
        self._hints.send(_requeued(rows))
        return [row["id"] for row in rows if row["done"]]

    async def decisions(self, *, task_id: int | None = None, limit: int = 100) -> list[Decision]:
        """The calls with an unknown outcome that wait for a person, the oldest first."""
        params = {
            "task_id": None if task_id is None else _id(task_id),
            "limit": max(1, min(limit, MAX_PAGE)),
        }
        return [Decision(**row) for row in await self._reads.fetch_dicts("decisions", params)]

    async def resolve(
        self,
        task_id: int,
        step: str,
        *,
        item: int | None = None,
        retry: bool = False,
        result: Any = NOT_GIVEN,
        by: str | None = None,
    ) -> None:
        """Decide on a call with an unknown outcome: make it again, or go on with this result,
        which must be what the step's function returns."""
        if retry == (result is not NOT_GIVEN):
            raise InvalidInput("either retry the call or give its result")
        given = None if retry else encode(result, what="the result")
        params = {
            "task_id": _id(task_id),
            "step": step,
            "item": -1 if item is None else item,
            "decision": "retry" if retry else "result",
            "result": given,
            "details": _by(by),
        }
        rows = await self.database.fetch("resolve", params)
        if not rows:
            await self.get(task_id)
            which = step if item is None else f"item {item} of {step}"
            raise IllegalTransition(f"nothing has to be decided about {which} of task {task_id}")
        self._hints.send(new_tasks(row[1:] for row in rows))

    async def signal(
        self,
        task_id: int,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
        connection: AsyncConnection[Any] | None = None,
    ) -> int:
        """Send a signal to a task, which receives it once (`task.wait_for`), now or when it asks
        for it. Returns the signal's id.

        Sent again with the same `key` it is the same signal. With `connection` it becomes part of
        the caller's transaction.
        """
        if not isinstance(name, str) or not is_storable(name) or not is_storable(key or ""):
            raise InvalidInput("a signal's name and key are text that PostgreSQL can store")
        params = {
            "task_id": _id(task_id),
            "name": name,
            "payload": encode(payload, what="the payload", max_bytes=MAX_ARGS_BYTES),
            "key": key or f"once {uuid4()}",  # the statement may be sent again
            "details": _by(by),
        }
        refuse_effects(connection, "the id of the signal")
        if connection is None:
            rows = await self.database.fetch("send_signal", params)
        else:
            rows = await fetch_on(connection, "send_signal", params)
        [(signal_id, pipeline, lane, xid)] = rows
        if lane is not None:
            new = NewlyDue(queues={(lane, pipeline)})
            if connection is None:
                self._hints.send(new)
            else:
                self._hints.send_after(xid, new)
        return int(signal_id)

    async def waiting(
        self, *, task_id: int | None = None, signal: str | None = None, limit: int = 100
    ) -> list[SignalWaitInfo]:
        """The tasks that wait for a signal, the longest wait first."""
        params = {
            "task_id": None if task_id is None else _id(task_id),
            "signal": signal,
            "limit": max(1, min(limit, MAX_PAGE)),
        }
        rows = await self._reads.fetch_dicts("waiting_for_signals", params)
        return [SignalWaitInfo(**row) for row in rows]

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

    # Pipelines and lanes.

    @property
    def lanes(self) -> LaneOperations:
        """The lanes of all pipelines: their limits, and what waits in them."""
        return LaneOperations(self.database, self._reads)

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
        return await self._reads.fetch_dicts("pipelines")

    # Batches.

    async def open_batch(
        self,
        name: str,
        *,
        stall_after: float = 300.0,
        max_resumes: int = 3,
        details: dict[str, Any] | None = None,
        on_complete: str | None = None,
    ) -> int:
        """The id of the batch with this name, which is created if there is none.

        Each time all its tasks have ended, a task of the pipeline `on_complete` is queued, once,
        with the arguments `batch_id`, `batch` (the name), `status` and `closing` (a number).
        """
        if on_complete is not None:
            await self._intake.check_pipeline(on_complete)
        params = _new_batch(name, stall_after, max_resumes, details, on_complete)
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
        return await self._batches_where(limit, statuses=statuses, before_id=before_id)

    async def children(self, task_id: int, limit: int = MAX_PAGE) -> list[BatchInfo]:
        """The batches of tasks that the task's steps have spawned, newest first."""
        await self.get(task_id)
        return await self._batches_where(limit, parent_id=task_id)

    async def batch(self, batch: int | str) -> BatchInfo:
        found = await (
            self._batches_where(1, id=_id(batch))
            if isinstance(batch, int)
            else self._batches_where(1, name=str(batch))
        )
        if not found:
            raise NotFound(f"there is no batch {batch}")
        return found[0]

    async def resume_batch(self, batch: int | str, *, by: str | None = None) -> Resumed:
        """Release the waiting tasks of a stalled batch. Idempotent: of two concurrent callers one
        resumes it, the other gets `resumed=False`."""
        store = await self.batch(batch)
        rows = await self.database.fetch("resume_batch", {"batch_id": store.id, "details": _by(by)})
        if rows:
            return Resumed(resumed=True, reason="resumed", released=rows[0][2], resumes=rows[0][1])
        store = await self.batch(store.id)
        reason = f"the batch is {store.status}: there is nothing to resume"
        return Resumed(resumed=False, reason=reason, released=0, resumes=store.resumes)

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
        canceled = await self.cancel_many(rest, by=by)
        if store.parent_id is not None:
            await self.database.fetch("wake_parents", {"batches": number_array([store.id])})
        return canceled

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
        lane: str | None = BY_PIPELINE,
        overlap: Overlap = "allow",
        catch_up: CatchUp = "one",
        jitter: float | timedelta = 0.0,
        due_as: str | None = None,
    ) -> datetime:
        """Queue a task at every time of the cron expression; returns the first. Scheduling the same
        name replaces it, and leaves it paused if it is.

        `overlap` is for a time that comes while the previous run is unfinished: `allow` both,
        `skip` the new one, or `queue` it until the previous one has ended. `catch_up` is for times
        that no runner saw, or that came while the schedule was paused: run `none` of them, the
        last `one`, or `all`. Tasks start up to `jitter` (seconds) later, at random. The argument
        that `due_as` names gets the run's own time, such as "2026-03-10T04:00:00Z".
        """
        await self._intake.check_pipeline(pipeline)
        check_options((), priority, None, None)
        rules = ScheduleRules(cron, timezone, overlap, catch_up, in_seconds(jitter), due_as)
        first = await self._schedules.first_time(rules)
        given = with_time({} if args is None else args, due_as, first)
        text, lane = self._intake.checked(pipeline, given, lane)
        task = {"pipeline": pipeline, "args": text, "lane": lane, "priority": priority}
        return await self._schedules.put(name, rules, first, task)

    async def unschedule(self, name: str) -> None:
        """Remove the schedule and the record of its runs. Its tasks stay."""
        await self._schedules.remove(name)

    async def schedules(self) -> list[dict[str, Any]]:
        return await self._schedules.every()

    async def pause_schedule(self, name: str, *, by: str | None = None) -> None:
        """Queue no more tasks until it is resumed."""
        await self._schedules.pause(name, _by(by))

    async def resume_schedule(
        self, name: str, *, skip_missed: bool = False, by: str | None = None
    ) -> None:
        """Queue tasks again. Of the times that came meanwhile those of `catch_up` are run; with
        `skip_missed` none."""
        await self._schedules.resume(name, skip_missed, _by(by))

    async def schedule_runs(
        self, name: str, *, before: datetime | None = None, limit: int = 100
    ) -> list[ScheduleRun]:
        """What became of its times, the latest first. `before`, the last `due_at` of a page, gives
        the next page."""
        return await self._schedules.runs(name, before, limit)

    async def next_runs(self, name: str, count: int = 5) -> list[datetime]:
        """The next times of the schedule, in its time zone; none while it is paused or disabled."""
        return await self._schedules.next_runs(name, count)

    # Private.

    async def _make_due(
        self, name: str, params: dict[str, Any], connection: AsyncConnection[Any] | None
    ) -> list[int]:
        """Change tasks and tell runners of them after the commit."""
        refuse_effects(connection, "the ids of the tasks")
        if connection is None:
            rows = await self.database.fetch(name, params)
        else:
            rows = await fetch_on(connection, name, params)
        new = new_tasks(row[1:5] for row in rows)
        if connection is None:
            self._hints.send(new)
        elif rows:
            self._hints.send_after(rows[0][-1], new)
        return [row[0] for row in rows]

    async def _batch_id(
        self, batch: int | str | None, connection: AsyncConnection[Any] | None
    ) -> int | None:
        if batch is None or not isinstance(batch, str):
            return None if batch is None else _id(batch)
        if connection is None:
            return await self.open_batch(batch)
        return int((await fetch_on(connection, "open_batch", _new_batch(batch)))[0][0])

    async def _batches_where(self, limit: int, **chosen: Any) -> list[BatchInfo]:
        every = dict.fromkeys(("id", "name", "statuses", "before_id", "parent_id"))
        params = {**every, **chosen, "limit": limit}
        return [BatchInfo(**row) for row in await self._reads.fetch_dicts("batch_ledger", params)]


def _requeued(rows: Iterable[dict[str, Any]]) -> NewlyDue:
    """The lanes of retried tasks; for the others the statement has sent the hint."""
    new = NewlyDue()
    for row in rows:
        if row["done"] and row["lane"] is not None:
            new.queues.add((row["lane"], row["pipeline"]))
    return new


def _new_batch(
    name: str,
    stall_after: float = 300.0,
    max_resumes: int = 3,
    details: dict[str, Any] | None = None,
    on_complete: str | None = None,
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
        "on_complete": on_complete,
    }


def _by(who: str | None) -> str | None:
    """The event's details: who did it, and by which request."""
    if who is None:
        return None
    request = current_request.get()
    return encode({"by": who} | ({"request_id": request} if request else {}), what="who did it")


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _ids(values: Iterable[object]) -> str:
    return number_array([_id(value) for value in values])


def _id(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63:
        raise InvalidInput(f"{value!r} is not an id")
    return value
