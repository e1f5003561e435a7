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
from typing import Any, NamedTuple

from regente.engine.coalescer import Coalescer
from regente.engine.crashpoints import crash_point
from regente.engine.database import (
    FOREVER,
    Database,
    DedicatedConnection,
    fetch_on,
    number_array,
    text_array,
)
from regente.engine.outcome import Completed, Ended

MAX_BATCH = 500
WARM_CONNECTIONS = 2  # for completions and for the watchdog
COMMIT_WITHIN_SECONDS = 5.0  # the server rolls back a pipeline's transaction that is frozen longer
DOUBT_SECONDS = 30.0  # how long a claim whose answer got lost may still be committed


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


class PriorityLevel(NamedTuple):
    """A priority level of a pipeline, and the `run_at` of its first task (`floor`)."""

    pipeline: str
    priority: int
    floor: str
    due_seconds: float


class TaskStore:
    def __init__(
        self,
        database: Database,
        runner_id: int,
        give_up_at: Callable[[], float] = lambda: FOREVER,
        lease_seconds: float = FOREVER,
    ) -> None:
        self.database = database
        self.runner_id = runner_id
        self._give_up_at = give_up_at  # how long to wait for a database that is away
        self._commit_within_seconds = min(COMMIT_WITHIN_SECONDS, lease_seconds)
        self.lease_is_over: Callable[[], bool] = lambda: False
        self._claiming = asyncio.Lock()
        self._claims = DedicatedConnection(database)
        self._doubt_until = 0.0
        self.finished: Coalescer[Completion, bool] = Coalescer(
            self._finish, max_batch=MAX_BATCH, bytes_of=lambda item: len(item.outcome.result or "")
        )
        self.settled: Coalescer[Settlement, bool] = Coalescer(
            self._settle, max_batch=MAX_BATCH, bytes_of=lambda item: item.outcome.size_bytes
        )
        self.marked: Coalescer[StepRecord, bool] = Coalescer(
            self._mark, max_batch=MAX_BATCH, bytes_of=lambda mark: len(mark.output or "")
        )

    def start(self) -> None:
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
            await self._claim(
                "claim", pipelines="{}", priorities="{}", floors="{}", limits="{}", free=0
            )
            endings = (
                self._fetch("finish", ids="{}", attempts="{}", results="{}")
                for _ in range(WARM_CONNECTIONS)
            )
            await asyncio.gather(*endings)

    async def claim(self, levels: Sequence[tuple[str, int, str, int]], free: int) -> list[Claim]:
        """Claim up to `free` due tasks, from each (pipeline, priority, floor, limit) in the given
        order, oldest first."""
        pipelines, priorities, floors, limits = zip(*levels, strict=True)
        rows = await self._claim(
            "claim",
            pipelines=text_array(pipelines),
            priorities=number_array(priorities),
            floors=text_array(floors),
            limits=number_array(limits),
            free=free,
        )
        if rows:
            crash_point("claim.committed")
        return [Claim._make(row) for row in rows]

    async def claim_suspect(self, pipelines: Sequence[str]) -> list[Claim]:
        rows = await self._claim("claim_suspect", pipelines=text_array(pipelines))
        return [Claim._make(row) for row in rows]

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

    async def survey(self, pipelines: Sequence[str]) -> list[PriorityLevel]:
        return [
            PriorityLevel._make(row)
            for row in await self._fetch("survey", pipelines=text_array(pipelines))
        ]

    async def anything_running(self, pipelines: Sequence[str]) -> bool:
        return bool((await self._fetch("anything_running", pipelines=text_array(pipelines)))[0][0])

    async def recall(self, task_id: int) -> dict[tuple[str, int], str | None]:
        rows = await self._fetch("recall_steps", task_id=task_id)
        return {(name, item): output for name, item, output in rows}

    async def add_event(self, claim: Claim, step: str, event: str, details: str) -> bool:
        fence = {"task_id": claim.id, "attempt": claim.attempt}
        return bool(
            await self._fetch("add_event", **fence, step=step, event=event, details=details)
        )

    async def add_event_on(self, connection: Any, claim: Claim, event: str, details: str) -> None:
        """Inside the pipeline's own transaction, whose end checks the fence."""
        about = {
            "task_id": claim.id,
            "batch_id": claim.batch_id,
            "attempt": claim.attempt,
            "runner_id": self.runner_id,
        }
        await fetch_on(connection, "log_event", {**about, "event": event, "details": details})

    async def canceled_here(self) -> list[tuple[int, int]]:
        return [(task_id, attempt) for task_id, attempt in await self._fetch("canceled_here")]

    async def mark_on(self, connection: Any, mark: StepRecord) -> bool:
        """Record a step inside the pipeline's own transaction: both commit, or neither."""
        return bool(await fetch_on(connection, "record_steps", self._mark_params([mark])))

    async def _finish(self, batch: Sequence[Completion]) -> list[bool]:
        crash_point("finish.before")
        fences = _fences(claim for claim, _, _ in batch)
        results = {
            claim.id: outcome.result
            for claim, outcome, _ in batch
            if claim.attempt == fences[claim.id]
        }
        ids = sorted(results)  # statements that lock several tasks do it in this order: no deadlock
        rows = await self._fetch(
            "finish",
            ids=number_array(ids),
            attempts=number_array([fences[task_id] for task_id in ids]),
            results=text_array([results[task_id] for task_id in ids]),
        )
        crash_point("finish.committed")
        return _verdicts((claim for claim, _, _ in batch), fences, rows)

    async def _settle(self, batch: Sequence[Settlement]) -> list[bool]:
        crash_point("settle.before")
        rows = await self._fetch("settle", **settle_params(batch))
        crash_point("settle.committed")
        return _verdicts(
            (claim for claim, _, _ in batch), _fences(claim for claim, _, _ in batch), rows
        )

    async def _mark(self, batch: Sequence[StepRecord]) -> list[bool]:
        rows = await self._fetch("record_steps", **self._mark_params(batch))
        return _verdicts(
            (mark.claim for mark in batch), _fences(mark.claim for mark in batch), rows
        )

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
            "durations_ms": number_array([mark.duration_ms for mark in steps]),
            "commit_within": f"{int(self._commit_within_seconds * 1000)}ms",
        }

    async def _fetch(self, name: str, **params: Any) -> list[tuple[Any, ...]]:
        return await self.database.fetch(
            name, {"runner_id": self.runner_id, **params}, give_up_at=self._give_up_at
        )


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


def _verdicts(
    claims: Iterable[Claim], fences: dict[int, int], rows: Sequence[tuple[Any, ...]]
) -> list[bool]:
    passed = {row[0] for row in rows}
    return [claim.id in passed and claim.attempt == fences[claim.id] for claim in claims]
