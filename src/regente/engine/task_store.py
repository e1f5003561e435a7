"""The task store of a runner: claims tasks and writes on behalf of running ones, under their fence.

It turns values into the parameters of the named statements and back, and retries while the database
is away. It decides nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import psycopg

from regente.engine import log
from regente.engine.coalescer import Coalescer
from regente.engine.crashpoints import crash_point
from regente.engine.database import (
    FOREVER,
    Database,
    DedicatedConnection,
    TaskConnections,
    execute_on,
    fetch_on,
    number_array,
    text_array,
)
from regente.engine.enqueue import Enqueuer
from regente.engine.errors import RowLocked, Throttled
from regente.engine.lane_knowledge import QUANTUM
from regente.engine.lanes import LaneQueue
from regente.engine.locked_rows import LockedRows, LockedTasks, waits_for_a_lock
from regente.engine.outcome import Completed, Ended
from regente.engine.priority_levels import FoundLevel, LevelRequest, Place

if TYPE_CHECKING:
    from regente.engine.lane_calls import LaneCalls

MAX_BATCH = 500
WARM_CONNECTIONS = 2  # for completions and for the watchdog
COMMIT_WITHIN_SECONDS = 5.0  # the server rolls back a pipeline's transaction that is frozen longer
LOCK_TIMEOUT = "200ms"  # as in settle.sql
DOUBT_SECONDS = 30.0  # how long a claim whose answer got lost may still be committed


class Written(Protocol):
    @property
    def claim(self) -> Claim: ...


WrittenT = TypeVar("WrittenT", bound=Written)


class Claim(NamedTuple):
    """A task that this runner has claimed. `attempt` is the fence."""

    id: int
    pipeline: str
    attempt: int
    tries: int
    crashes: int
    max_attempts: int | None
    batch_id: int | None
    args: str
    born_us: int = 0
    """When the task was created: no other task has its id and this time, in no restored copy."""
    priority: int = 0
    run_at: float = 0.0
    """In seconds of the database's time."""
    lane: str | None = None
    lane_is_limited: bool = False
    """Whether its end may make room for another task of the lane."""
    lane_is_watched: bool = False
    """Whether its success is to be reported, for the lane's rate or breaker."""


class LanesClaimed(NamedTuple):
    """Tasks claimed from lanes, the queues that are to be looked at now, and how many were
    ready."""

    claims: list[Claim]
    to_look_at: list[LaneQueue]
    ready: int


class Completion(NamedTuple):
    """A completed attempt; `owner` is passed through to the callback."""

    claim: Claim
    outcome: Completed
    owner: Any


class Settlement(NamedTuple):
    """Any other outcome of an attempt."""

    claim: Claim
    outcome: Ended
    owner: Any = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A finished step, or only a heartbeat (`name` is None)."""

    claim: Claim
    name: str | None = None
    item: int = -1
    output: str | None = None
    duration_ms: float | None = None
    checkpoint: str | None = None
    progress: float | None = None
    call: str | None = None


class Recorded(NamedTuple):
    """The stored result of a finished step. `call` is None when older code recorded it."""

    output: str | None
    call: str | None


class Installation(NamedTuple):
    """The database's random id. Tasks created until `since_us` keep the keys that older code may
    have sent for them."""

    id: str
    since_us: int


class TaskStore:
    def __init__(
        self,
        database: Database,
        runner_id: int,
        give_up_at: Callable[[], float] = lambda: FOREVER,
        lease_seconds: float = FOREVER,
        transactions: TaskConnections | None = None,
    ) -> None:
        self.database = database
        self.transactions = transactions or TaskConnections(database, 1)
        self.runner_id = runner_id
        self.installation = Installation("none", -1)
        self.intake: Enqueuer  # of the runner, for tasks that spawn others
        self.calls: LaneCalls  # of the registration
        self._give_up_at = give_up_at  # how long to wait for a database that is away
        self._commit_within_seconds = min(COMMIT_WITHIN_SECONDS, lease_seconds)
        self.lease_is_over: Callable[[], bool] = lambda: False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._claiming = asyncio.Lock()
        self._claims = DedicatedConnection(database)
        self._doubt_until = 0.0
        self._locked = LockedTasks()
        self.finished: Coalescer[Completion, bool] = Coalescer(
            self._finish,
            max_batch=MAX_BATCH,
            bytes_of=lambda item: len(item.outcome.result or ""),
            locked_rows=self._locked_rows("finish", self._finish_params),
        )
        self.settled: Coalescer[Settlement, bool] = Coalescer(
            self._settle,
            max_batch=MAX_BATCH,
            bytes_of=lambda item: item.outcome.size_bytes,
            locked_rows=self._locked_rows("settle", settle_params),
        )
        self.marked: Coalescer[StepRecord, bool] = Coalescer(
            self._mark,
            max_batch=MAX_BATCH,
            bytes_of=lambda mark: len(mark.output or ""),
            locked_rows=self._locked_rows("record_steps", self._mark_params),
        )

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        for coalescer in (self.finished, self.settled, self.marked):
            coalescer.start()

    async def stop(self) -> None:
        for coalescer in (self.finished, self.settled, self.marked):
            await coalescer.stop()
        await self._claims.close()

    async def warm_up(self) -> None:
        """Prepare the statements that every task needs on a few connections, before the first task
        waits for that. Writes nothing."""
        if not self.database.through_pooler:
            await self._claim("claim", **claim_params([]), free=0)
            endings = (
                self._fetch("finish", ids="{}", attempts="{}", results="{}")
                for _ in range(WARM_CONNECTIONS)
            )
            await asyncio.gather(*endings)

    async def claim(self, levels: Sequence[LevelRequest], free: int) -> list[Claim]:
        """Claim up to `free` due tasks from these levels, which are grouped by pipeline, in the
        given order, oldest first."""
        if not levels:
            return []
        rows = await self._claim("claim", **claim_params(levels), free=free)
        if rows:
            crash_point("claim.committed")
        return [Claim(*row) for row in rows]

    async def claim_lanes(self, room: dict[str, int], free: int, lanes: int) -> LanesClaimed:
        """Claim up to `free` due tasks of these pipelines, with room for so many of each, from up
        to so many lanes, those that have been ready longest first."""
        rows = await self._claim(
            "claim_lanes",
            pipelines=text_array(list(room)),
            limits=number_array(list(room.values())),
            free=free,
            lanes=lanes,
            quantum=QUANTUM,
        )
        claims = [Claim(*row) for row in rows if row[0] is not None]
        if claims:
            crash_point("claim.lanes_committed")
        claims.sort(key=lambda claim: (-claim.priority, claim.run_at, claim.id))
        found = [row for row in rows if row[0] is None]
        to_look_at = [(row[11], row[1]) for row in found if row[11] is not None]
        return LanesClaimed(claims, to_look_at, sum(row[2] for row in found if row[11] is None))

    async def survey_lanes(
        self, pipelines: Sequence[str]
    ) -> tuple[list[tuple[str, float]], list[str]]:
        """In how many seconds the first lane of a pipeline is ready, and the pipelines with
        suspects in lanes."""
        rows = await self._fetch("survey_lanes", pipelines=text_array(pipelines))
        ready = [(pipeline, seconds) for pipeline, seconds in rows if seconds is not None]
        return ready, [pipeline for pipeline, seconds in rows if seconds is None]

    async def claim_suspect(self, pipelines: Sequence[str]) -> list[Claim]:
        rows = await self._claim("claim_suspect", pipelines=text_array(pipelines))
        return [Claim(*row) for row in rows]

    async def claim_lane_suspect(self, pipelines: Sequence[str]) -> list[Claim]:
        rows = await self._claim("claim_lane_suspect", pipelines=text_array(pipelines))
        return [Claim(*row) for row in rows]

    async def _claim(self, name: str, **params: Any) -> list[tuple[Any, ...]]:
        async with self._claiming:
            losses = self.database.losses
            try:
                return await self._claims.fetch(
                    name, {"runner_id": self.runner_id, **params}, self._give_up_at
                )
            finally:
                if self.database.losses > losses:
                    self._doubt_until = time.monotonic() + DOUBT_SECONDS
                self.lease_is_over()  # so that a lost lease is noticed before the tasks start

    async def return_unknown(self, known: Callable[[], Iterable[int]]) -> int:
        """Hand back tasks that a claim with a lost answer has given to this runner."""
        if time.monotonic() > self._doubt_until:
            return 0
        async with self._claiming:
            return len(await self._fetch("hand_back", **{"except": number_array(list(known()))}))

    async def survey(self, pipelines: Sequence[str]) -> tuple[list[FoundLevel], float]:
        """All levels, and how many seconds the server searched for them."""
        rows = await self._fetch("survey", pipelines=text_array(pipelines))
        took_seconds = max((row[-1] for row in rows), default=0.0)
        return [FoundLevel._make(row[:-1]) for row in rows], took_seconds

    async def survey_levels(self, levels: Sequence[tuple[str, int, Place]]) -> list[FoundLevel]:
        """The first task of each (pipeline, rank), from a place on."""
        if not levels:
            return []
        pipelines, ranks, floors = zip(*levels, strict=True)
        rows = await self._fetch(
            "survey_levels",
            pipelines=text_array(pipelines),
            ranks=number_array(ranks),
            floors=number_array([run_at for run_at, _ in floors]),
            floor_ids=number_array([task_id for _, task_id in floors]),
        )
        return [FoundLevel._make(row) for row in rows]

    async def anything_running(self, pipelines: Sequence[str]) -> bool:
        return bool((await self._fetch("anything_running", pipelines=text_array(pipelines)))[0][0])

    async def recall(self, task_id: int) -> dict[str, dict[int, Recorded]]:
        """The finished steps of a task: by name, then by item."""
        found: dict[str, dict[int, Recorded]] = {}
        for name, item, output, call in await self._fetch("recall_steps", task_id=task_id):
            found.setdefault(name, {})[item] = Recorded(output, call)
        return found

    async def recall_intents(self, claim: Claim) -> list[tuple[Any, ...]]:
        return await self._fetch("recall_intents", task_id=claim.id)

    async def record_intent(self, claim: Claim, name: str, item: int, call: str) -> datetime | None:
        """When the call is about to be made; None when the fence refused it."""
        called_at: datetime | None = await self._write_when_free(
            "record_intent", claim, step=name, item=item, call=call
        )
        return called_at

    async def forget_intent(self, claim: Claim, name: str, item: int) -> None:
        await self._write_when_free("forget_intent", claim, step=name, item=item)

    async def ask_about_intents(self, claim: Claim, name: str, item: int) -> bool:
        return bool(await self._write_when_free("ask_about_intents", claim, step=name, item=item))

    async def look_for_signal(
        self, claim: Claim, step: str, signal: str, timeout_seconds: float | None
    ) -> list[tuple[Any, ...]]:
        what = {"step": step, "signal": signal, "timeout_seconds": timeout_seconds}
        return await self._fetch_when_free("look_for_signal", claim, **what)

    async def receive_signal(self, claim: Claim, **what: Any) -> list[tuple[Any, ...]]:
        return await self._fetch_when_free("receive_signal", claim, **what)

    async def refuse_signal(self, claim: Claim, signal_id: int, reason: str) -> bool:
        what = {"signal_id": signal_id, "reason": reason}
        return bool(await self._fetch_when_free("refuse_signal", claim, **what))

    async def children_of_step(self, claim: Claim, steps: Sequence[str]) -> list[tuple[Any, ...]]:
        """The batch that one of these steps has opened, and its call."""
        return await self._fetch("children_of_step", task_id=claim.id, steps=text_array(steps))

    async def log_spawned(
        self,
        connection: Any,
        claim: Claim,
        step: str,
        pipeline: str,
        children: int,
        children_batch: int,
    ) -> None:
        """Inside the transaction that stores the children."""
        about = {
            "task_id": claim.id,
            "batch_id": claim.batch_id,
            "attempt": claim.attempt,
            "runner_id": self.runner_id,
        }
        what = {"step": step, "pipeline": pipeline}
        counted = {"children": children, "children_batch": children_batch}
        await execute_on(connection, "log_spawned", {**about, **what, **counted})

    async def await_children(self, claim: Claim, step: str, batch_id: int) -> bool | None:
        """Whether they are done; None when the attempt has lost its task."""
        what = {"step": step, "batch_id": batch_id}
        rows = await self._fetch_when_free("await_children", claim, **what)
        return bool(rows[0][0]) if rows else None

    async def results_of_children(self, batch_id: int, first: int | None) -> list[dict[str, Any]]:
        params = {"batch_id": batch_id, "first": first}
        return await self.database.fetch_dicts("results_of_children", params)

    async def cancel_rest(self, batch_id: int) -> None:
        """Cancel the children that have not ended: enough have."""
        rows = await self._fetch("batch_rest", batch_id=batch_id)
        details = '{"reason": "not_needed"}'
        await self._fetch("cancel", ids=number_array([row[0] for row in rows]), details=details)

    async def record_children(self, claim: Claim, step: str, output: str, call: str) -> bool:
        what = {"step": step, "output": output, "call": call}
        return bool(await self._fetch_when_free("record_children", claim, **what))

    async def add_event(self, claim: Claim, step: str, event: str, details: str) -> bool:
        what = {"step": step, "event": event, "details": details}
        return bool(await self._write_when_free("add_event", claim, **what))

    async def _write_when_free(self, name: str, claim: Claim, **params: Any) -> Any:
        """What the statement returns beside `locked`. While another session has locked the task's
        row nothing waits in the database: it is repeated until the row is free."""
        for wait_seconds in waits_for_a_lock():
            [(passed, locked)] = await self._fetch(
                name, task_id=claim.id, attempt=claim.attempt, **params
            )
            if not locked:
                return passed
            if time.monotonic() > self._give_up_at():
                break
            await asyncio.sleep(wait_seconds)
        raise RowLocked(f"another session holds a lock on the row of task {claim.id}")

    async def add_event_on(self, connection: Any, claim: Claim, event: str, details: str) -> None:
        """Inside the pipeline's own transaction, whose end checks the fence."""
        about = {
            "task_id": claim.id,
            "batch_id": claim.batch_id,
            "attempt": claim.attempt,
            "runner_id": self.runner_id,
        }
        await execute_on(connection, "log_event", {**about, "event": event, "details": details})

    async def to_be_stopped(self, claims: Sequence[Claim]) -> list[tuple[int, int, bool]]:
        """Those of the claims that must stop, as id, attempt, and whether the task is no longer
        this runner's; the others were asked to be canceled."""
        rows = await self._fetch(
            "to_be_stopped",
            ids=number_array([claim.id for claim in claims]),
            attempts=number_array([claim.attempt for claim in claims]),
        )
        return [(task_id, attempt, lost) for task_id, attempt, lost in rows]

    async def mark_on(self, connection: Any, mark: StepRecord) -> bool:
        """Record a step inside the pipeline's own transaction: both commit, or neither."""
        params = self._mark_params([mark])
        params["within"] = f"{int(self._commit_within_seconds * 1000)}ms"
        try:
            return bool(await fetch_on(connection, "record_steps", params))
        except psycopg.errors.LockNotAvailable as error:
            # The transaction may hold locks of its own, so it must not wait for long.
            raise Throttled(
                f"another session holds a lock on the row of task {mark.claim.id}",
                retry_after=self._commit_within_seconds,
                code=RowLocked.code,
            ) from error

    async def _finish(self, batch: Sequence[Completion]) -> list[bool]:
        crash_point("finish.before")
        verdicts = await self._write("finish", batch, self._finish_params)
        crash_point("finish.committed")
        return verdicts

    async def _settle(self, batch: Sequence[Settlement]) -> list[bool]:
        crash_point("settle.before")
        verdicts = await self._write("settle", batch, settle_params)
        crash_point("settle.committed")
        return verdicts

    async def _mark(self, batch: Sequence[StepRecord]) -> list[bool]:
        return await self._write("record_steps", batch, self._mark_params)

    async def _write(
        self,
        name: str,
        batch: Sequence[WrittenT],
        params_of: Callable[[Sequence[WrittenT]], dict[str, Any]],
    ) -> list[bool]:
        params = {"runner_id": self.runner_id, **params_of(batch)}
        rows = await self.database.fetch_unless_locked(name, params, give_up_at=self._give_up_at)
        return _verdicts(batch, rows)

    # Writes for tasks of which some are locked by other sessions.

    def _locked_rows(
        self, name: str, params_of: Callable[[Sequence[WrittenT]], dict[str, Any]]
    ) -> LockedRows[WrittenT, bool]:
        return LockedRows(
            lambda batch: self._write_free(name, batch, params_of),
            lambda item: item.claim.id,
            self._locked,
            self._give_up_at,
        )

    async def _write_free(
        self,
        name: str,
        batch: Sequence[WrittenT],
        params_of: Callable[[Sequence[WrittenT]], dict[str, Any]],
    ) -> list[bool | None]:
        """Write for the tasks whose rows are free, without waiting for the others."""

        async def attempt() -> list[bool | None]:
            async with self.database.connection() as connection, connection.transaction():
                locked = await self._locked_tasks(connection, {item.claim.id for item in batch})
                free = [item for item in batch if item.claim.id not in locked]
                params = {"runner_id": self.runner_id, **params_of(free)}
                rows = await fetch_on(connection, name, params) if free else []
            if free:
                crash_point("locked.committed")
            return [
                None if item.claim.id in locked else verdict
                for item, verdict in zip(batch, _verdicts(batch, rows), strict=True)
            ]

        return await self.database.retry_while_away(attempt, self._give_up_at)

    async def _locked_tasks(self, connection: Any, ids: set[int]) -> set[int]:
        """Lock these tasks, except those that another session has locked: these are returned."""
        rows = await fetch_on(connection, "lock_free_tasks", {"ids": number_array(sorted(ids))})
        locked = {row[0] for row in rows}
        news = [task_id for task_id in sorted(locked) if task_id not in self._locked.writes]
        if news:
            holders = await fetch_on(connection, "row_lock_holders", {"ids": number_array(news)})
            log.rows_locked(news, [holder for (holder,) in holders])
        return locked

    def _finish_params(self, batch: Sequence[Completion]) -> dict[str, Any]:
        fences = _fences(claim for claim, _, _ in batch)
        results = {
            claim.id: outcome.result
            for claim, outcome, _ in batch
            if claim.attempt == fences[claim.id]
        }
        ids = sorted(results)  # statements that lock several tasks do it in this order: no deadlock
        return {
            "ids": number_array(ids),
            "attempts": number_array([fences[task_id] for task_id in ids]),
            "results": text_array([results[task_id] for task_id in ids]),
        }

    def _mark_params(self, batch: Sequence[StepRecord]) -> dict[str, Any]:
        fences = _fences(mark.claim for mark in batch)
        current = [mark for mark in batch if mark.claim.attempt == fences[mark.claim.id]]
        newest = {mark.claim.id: mark for mark in sorted(current, key=lambda mark: mark.claim.id)}
        steps = [mark for mark in current if mark.name is not None]
        return {
            "runner_id": self.runner_id,
            "ids": number_array(list(newest)),
            "attempts": number_array([mark.claim.attempt for mark in newest.values()]),
            "checkpoints": text_array([mark.checkpoint for mark in newest.values()]),
            "progress": number_array([mark.progress for mark in newest.values()]),
            "task_ids": number_array([mark.claim.id for mark in steps]),
            "names": text_array([mark.name for mark in steps]),
            "items": number_array([mark.item for mark in steps]),
            "outputs": text_array([mark.output for mark in steps]),
            "calls": text_array([mark.call for mark in steps]),
            "durations_ms": number_array([mark.duration_ms for mark in steps]),
            "within": LOCK_TIMEOUT,
        }

    async def _fetch_when_free(
        self, name: str, claim: Claim, **params: Any
    ) -> list[tuple[Any, ...]]:
        """Run a statement of one attempt, which does not wait long for the task's row, again until
        no other session has it locked."""
        params = {
            "runner_id": self.runner_id,
            "task_id": claim.id,
            "attempt": claim.attempt,
            **params,
        }
        for wait_seconds in waits_for_a_lock():
            try:
                return await self.database.fetch_unless_locked(
                    name, params, give_up_at=self._give_up_at
                )
            except RowLocked:
                if time.monotonic() > self._give_up_at():
                    raise
            await asyncio.sleep(wait_seconds)
        raise AssertionError

    async def _fetch(self, name: str, **params: Any) -> list[tuple[Any, ...]]:
        return await self.database.fetch(
            name, {"runner_id": self.runner_id, **params}, give_up_at=self._give_up_at
        )


def claim_params(levels: Sequence[LevelRequest]) -> dict[str, str]:
    """Each pipeline with its slots, and the positions of its first and last level."""
    pipelines: dict[str, list[int]] = {}
    for position, level in enumerate(levels, start=1):
        pipelines.setdefault(level.pipeline, [level.limit, position, position])[2] = position
    limits, firsts, lasts = zip(*pipelines.values(), strict=True) if levels else ((), (), ())
    return {
        "pipelines": text_array(list(pipelines)),
        "limits": number_array(limits),
        "firsts": number_array(firsts),
        "lasts": number_array(lasts),
        "ranks": number_array([level.rank for level in levels]),
        "floors": number_array([level.floor[0] for level in levels]),
        "floor_ids": number_array([level.floor[1] for level in levels]),
    }


def settle_params(batch: Sequence[Settlement]) -> dict[str, Any]:
    fences = _fences(claim for claim, _, _ in batch)
    current = {
        claim.id: (claim, outcome)
        for claim, outcome, _ in batch
        if claim.attempt == fences[claim.id]
    }
    snapshots = [
        (claim.id, shot) for claim, outcome in current.values() for shot in outcome.snapshots
    ]
    return {
        "ids": number_array(list(current)),
        "attempts": number_array([fences[task_id] for task_id in current]),
        "outcomes": text_array(
            [json.dumps(outcome.as_json(claim.pipeline)) for claim, outcome in current.values()]
        ),
        "snapshot_ids": number_array([task_id for task_id, _ in snapshots]),
        "snapshot_names": text_array([shot.name for _, shot in snapshots]),
        "snapshot_types": text_array([shot.content_type for _, shot in snapshots]),
        "snapshots_truncated": text_array(
            ["t" if shot.truncated else "f" for _, shot in snapshots]
        ),
        "snapshot_bodies": "{"
        + ",".join([b64encode(shot.body).decode("ascii") or '""' for _, shot in snapshots])
        + "}",
    }


def _fences(claims: Iterable[Claim]) -> dict[int, int]:
    """The highest attempt for each task: a task that this runner lost and claimed again may be in a
    batch twice."""
    fences: dict[int, int] = {}
    for claim in claims:
        if claim.attempt > fences.get(claim.id, 0):
            fences[claim.id] = claim.attempt
    return fences


def _verdicts(batch: Sequence[Written], rows: Sequence[tuple[Any, ...]]) -> list[bool]:
    fences = _fences(item.claim for item in batch)
    passed = {row[0] for row in rows}
    return [
        item.claim.id in passed and item.claim.attempt == fences[item.claim.id] for item in batch
    ]
