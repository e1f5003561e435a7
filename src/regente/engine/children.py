"""How a task spawns others, waits for them without a slot, and gets their results.

The children are a batch that belongs to the parent's step: it is opened in the transaction that
stores them, under the parent's fence, and its closing wakes the parent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regente.engine.calls import call_text
from regente.engine.codec import decode_result
from regente.engine.crashpoints import crash_point
from regente.engine.database import fetch_on
from regente.engine.enqueue import NewTask, check_options
from regente.engine.errors import (
    ChildrenFailed,
    Fatal,
    InvalidArgs,
    InvalidInput,
    LeaseLost,
    ReplayMismatch,
    Waiting,
)
from regente.engine.models import Child
from regente.engine.replay import Replay, stored
from regente.engine.task_store import Claim, Recorded, StepRecord, TaskStore
from regente.engine.transactions import fenced_transaction

MAX_CHILDREN = 100_000
MAX_DEPTH = 20
SHOWN_FAILURES = 10

Failures = Literal["raise", "return"]


@dataclass(frozen=True, slots=True)
class Spawned:
    """The tasks that a step spawns, and the type (`hint`) of their results."""

    pipeline: str
    args: Sequence[Any]
    first: int | None
    failures: Failures
    priority: int
    max_attempts: int | None
    stall_after_seconds: float
    hint: Any

    def check(self) -> None:
        """Refuse what could not be stored, or would never end."""
        check_options((), self.priority, None, self.max_attempts)
        if len(self.args) > MAX_CHILDREN:
            raise InvalidInput(
                f"a step spawns at most {MAX_CHILDREN:,} tasks, not {len(self.args):,}"
            )
        if self.first is not None and not 1 <= self.first <= len(self.args):
            raise InvalidInput(f"first is 1 to the number of children, not {self.first}")
        if self.failures not in ("raise", "return"):
            raise InvalidInput(f'failures is "raise" or "return", not {self.failures!r}')

    @property
    def text(self) -> str:
        """The call, as it is recorded and compared."""
        options: dict[str, Any] = {} if self.first is None else {"first": self.first}
        if self.failures != "raise":
            options["failures"] = self.failures
        return call_text(_children, (self.pipeline, list(self.args)), options, name="spawn")


class Children:
    """The children of one step (`key`, formerly one of `names`) of one attempt."""

    __slots__ = ("_call", "_claim", "_key", "_names", "_replay", "_spawned", "_store")

    def __init__(
        self,
        claim: Claim,
        store: TaskStore,
        replay: Replay,
        names: Sequence[str],
        spawned: Spawned,
    ) -> None:
        self._claim = claim
        self._store = store
        self._replay = replay
        self._key = names[0]
        self._names = names
        self._spawned = spawned
        self._call = spawned.text

    def replayed(self, recorded: Recorded) -> list[Any]:
        """The results that an earlier attempt got of the children."""
        if recorded.call != self._call:
            raise self._changed(recorded.call)
        told = json.loads(recorded.output or "[]")
        children = told["children"] if isinstance(told, dict) else told
        try:
            return self._told([Child(**one) for one in children])
        except InvalidArgs as error:
            raise self._replay.changed(self._key, recorded, str(error)) from error

    async def results(self) -> list[Any]:
        """Store the children, unless an earlier attempt did; wait for them; record what they
        returned."""
        if not self._spawned.args:
            return self._told(await self._record([]))
        batch_id = await self._batch() or await self._open()
        done = await self._store.await_children(self._claim, self._key, batch_id)
        if done is None:
            raise LeaseLost(f"task {self._claim.id} was taken over")
        if not done:
            details = {"children": len(self._spawned.args), "children_batch": batch_id}
            raise Waiting(self._key, math.inf, details)
        rows = await self._store.results_of_children(batch_id, self._spawned.first)
        if self._spawned.first is not None and len(rows) < self._spawned.first:
            rows = await self._store.results_of_children(batch_id, None)
        if self._spawned.first is None and len(rows) != len(self._spawned.args):
            raise Fatal(
                f"{len(rows)} of the {len(self._spawned.args)} tasks that {self._key} spawned are "
                "left",
                code="CHILDREN_GONE",
            )
        if self._spawned.first is not None:
            await self._store.cancel_rest(batch_id)
        return self._told(await self._record([Child(**row) for row in rows]))

    async def _batch(self) -> int | None:
        """The batch that an earlier attempt opened."""
        rows = await self._store.children_of_step(self._claim, self._names)
        if not rows:
            return None
        [(batch_id, call)] = rows
        if call != self._call:
            raise self._changed(call)
        return int(batch_id)

    async def _open(self) -> int:
        spawned, claim, intake = self._spawned, self._claim, self._store.intake
        texts = [intake.checked(spawned.pipeline, one) for one in spawned.args]
        record = StepRecord(claim, None, checkpoint=self._key)
        async with fenced_transaction(self._store, record, lambda: False) as opened:
            connection = opened.connection
            await intake.check_pipeline(spawned.pipeline, connection)
            batch = {
                "name": f"task {claim.id}: {self._key}"[:200],
                "task_id": claim.id,
                "step": self._key,
                "call": self._call,
                "first": spawned.first,
                "stall_after_seconds": spawned.stall_after_seconds,
            }
            [(batch_id, depth)] = await fetch_on(connection, "open_children", batch)
            if depth > MAX_DEPTH:
                raise InvalidInput(f"tasks spawn tasks at most {MAX_DEPTH} deep")
            like = NewTask(
                spawned.pipeline,
                "",
                priority=spawned.priority,
                max_attempts=spawned.max_attempts,
                batch_id=batch_id,
            )
            await intake.many(
                [like._replace(args=text, lane=lane) for text, lane in texts], connection
            )
            await self._store.log_spawned(
                connection, claim, self._key, spawned.pipeline, len(texts), batch_id
            )
        crash_point("children.spawned")
        return int(batch_id)

    async def _record(self, children: list[Child]) -> list[Child]:
        told: Any = [child.model_dump() for child in children]
        if self._has_failed(children):  # what an operator's retry of the parent looks at again
            told = {"spawned": "failed", "children": told}
        output, _ = stored(told, Any, self._key)
        if not await self._store.record_children(self._claim, self._key, output, self._call):
            raise LeaseLost(f"task {self._claim.id} was taken over")
        crash_point("children.recorded")
        return children

    def _has_failed(self, children: list[Child]) -> bool:
        if self._spawned.failures == "return":
            return False
        done = sum(child.ok for child in children)
        return done < (self._spawned.first or len(children))

    def _told(self, children: list[Child]) -> list[Any]:
        """The children or their results; raises an error that names those that failed."""
        if self._spawned.failures == "return":
            return children
        if self._has_failed(children):
            failed = [child for child in children if not child.ok]
            raise ChildrenFailed(
                f"{len(failed)} of {len(children)} tasks that {self._key} spawned did not succeed: "
                + "; ".join(map(str, failed[:SHOWN_FAILURES])),
                details={"failed": [child.id for child in failed]},
            )
        what = f"the result of a task of {self._spawned.pipeline}"
        return [
            decode_result(json.dumps(child.result), self._spawned.hint, what=what)
            for child in children
            if child.ok
        ]

    def _changed(self, recorded: str | None) -> ReplayMismatch:
        return self._replay.changed(self._key, Recorded(None, recorded), self._call)


def _children(pipeline: str, args: list[Any]) -> None:
    """Names the call of a step that spawns."""
