"""Replays what a task has recorded against other code: up to the first step that is not recorded,
without calling any step's function and without writing anything.

What the code does between its steps runs, as it does in every attempt; effects are refused there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from regente.engine.effect_guard import EffectRefused, effects_refused, refused_effect
from regente.engine.errors import ControlFlow, Held, RegenteError, Skip, Suspended
from regente.engine.lanes import Lane
from regente.engine.models import ReplayCheck, ReplayVerdict
from regente.engine.pipeline import Pipeline
from regente.engine.replay import Memory, check_name
from regente.engine.task import Task
from regente.engine.task_store import Claim, Installation, Recorded

SECONDS = 10.0  # for one task: between its steps code may wait for something that never comes


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A task in flight with what its attempts have recorded."""

    claim: Claim
    steps: Mapping[str, Mapping[int, Recorded]]
    spawned: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """The batch and the call of each step that has spawned tasks."""
    intents: Sequence[tuple[Any, ...]] = ()
    """Of calls with `on_unknown="hold"`, as `recall_intents` returns them."""


class Stopped(ControlFlow):
    """The replay is at a step that is not recorded."""


class _Noted(dict[str, Mapping[int, Recorded]]):
    """The recorded steps, which notes for which of them the code has asked."""

    def __init__(self, steps: Mapping[str, Mapping[int, Recorded]]) -> None:
        super().__init__(steps)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


class _DryStore:
    """Knows what is recorded. Anything else that a task wants of its store stops the replay."""

    loop = None
    task: DryTask

    def __init__(self, recorded: RecordedTask, installation: Installation) -> None:
        self.installation = installation
        self.memory = _Noted(recorded.steps)
        self._spawned = recorded.spawned
        self._intents = list(recorded.intents)

    def lease_is_over(self) -> bool:
        return False

    async def recall(self, task_id: int) -> Memory:
        return self.memory

    async def children_of_step(self, claim: Claim, steps: Sequence[str]) -> list[tuple[int, str]]:
        self.memory.asked.update(steps)
        return [self._spawned[step] for step in steps if step in self._spawned]

    async def recall_intents(self, claim: Claim) -> list[tuple[Any, ...]]:
        return self._intents

    def __getattr__(self, name: str) -> NoReturn:
        self.task.stop()


class DryTask(Task[Any]):
    __slots__ = ("stopped_at",)

    def __init__(self, recorded: RecordedTask, pipeline: Pipeline, store: _DryStore) -> None:
        super().__init__(recorded.claim, pipeline, store)  # type: ignore[arg-type]
        self.stopped_at: str | None = None
        store.task = self

    @property
    def resumed(self) -> bool:
        return True

    async def progress(self, fraction: float | None = None, checkpoint: str | None = None) -> None:
        if checkpoint is not None:
            check_name(checkpoint)

    async def heartbeat(self) -> None:
        """Nothing waits for it."""

    def beat(self) -> None:
        """Nothing waits for it."""

    async def event(self, name: str, /, **details: Any) -> None:
        """One that is not recorded would be added, and the code would go on."""
        self._replay.key(f"event:{name}") in await self._recall()  # noqa: B015 - notes the question

    @contextlib.asynccontextmanager
    async def in_lane(self, lane: Lane) -> AsyncIterator[None]:
        """No call is made, so that none needs a place."""
        yield

    async def _recall(self) -> Memory:
        if self.stopped_at is not None:  # the code caught it: it goes no further
            raise Stopped(self.stopped_at)
        return await super()._recall()

    async def _run(self, step: str, *_: Any) -> NoReturn:
        self.stop(step)

    def _transaction(self, key: str | None, call: str | None = None) -> NoReturn:
        self.stop(key or "a transaction without a name")

    def stop(self, step: str | None = None) -> NoReturn:
        """At this step, or at the one where the task stands."""
        self.stopped_at = self.stopped_at or step or self.current_step or "its beginning"
        raise Stopped(self.stopped_at)


async def replay(
    pipeline: Pipeline, recorded: RecordedTask, installation: Installation
) -> ReplayCheck:
    """What this code would make of the task's recorded steps."""
    store = _DryStore(recorded, installation)
    task = DryTask(recorded, pipeline, store)
    with effects_refused():
        error = await _outcome(task, pipeline)
        outside = refused_effect()
    stopped_at = task.stopped_at or _slot_given_back(error)
    left = _unasked(recorded, store.memory.asked, stopped_at)
    verdict, message = _judged(task, error, outside, stopped_at, left)
    claim = recorded.claim
    return ReplayCheck(
        task_id=claim.id,
        pipeline=claim.pipeline,
        verdict=verdict,
        message=message,
        stopped_at=stopped_at,
        unasked=left if verdict == "unasked" else [],
    )


async def _outcome(task: DryTask, pipeline: Pipeline) -> BaseException | None:
    """What the function raised, and nothing that it started is left."""
    before = asyncio.all_tasks()
    try:
        async with asyncio.timeout(SECONDS):
            await pipeline.function(task)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseExceptionGroup as group:
        control = group.subgroup(ControlFlow)
        return _leaf(control or group)
    except Skip:
        return None
    except BaseException as error:
        return error
    finally:
        started = asyncio.all_tasks() - before
        for one in started:
            one.cancel()
        await asyncio.gather(*started, return_exceptions=True)
    return None


def _slot_given_back(error: BaseException | None) -> str | None:
    """Where the task would sleep or be held."""
    if isinstance(error, Suspended):
        return error.step
    return "a hold" if isinstance(error, Held) else None


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _judged(
    task: DryTask,
    error: BaseException | None,
    outside: str | None,
    stopped_at: str | None,
    left: list[str],
) -> tuple[ReplayVerdict, str]:
    if task.mismatch is not None:
        return "mismatch", str(task.mismatch)
    if outside is not None or isinstance(error, EffectRefused):
        return "outside", f"it has an effect outside of a step: {outside or error}"
    if stopped_at is None and isinstance(error, TimeoutError):
        return "slow", f"it waits between its steps; the last is {task.current_step}"
    if stopped_at is None and error is not None and not isinstance(error, ControlFlow):
        code = error.code if isinstance(error, RegenteError) else type(error).__name__
        return "fails", f"{code}: {error}"
    where = "it ends" if stopped_at is None else f"it continues at {stopped_at}"
    if left:
        return "unasked", f"{where} and has not asked for {', '.join(left)}"
    return "understood", where


def _unasked(recorded: RecordedTask, asked: set[str], stopped_at: str | None) -> list[str]:
    """Recorded steps that the code did not ask for; not those inside of the loop that it is at,
    whose unfinished items it has not begun, and no events, which have no result."""
    intents = (intent[0] for intent in recorded.intents)
    keys = {*recorded.steps, *recorded.spawned, *intents} - asked
    inside = f"{stopped_at}["
    return sorted(key for key in keys if not key.startswith(inside) and not _is_event(key))


def _is_event(key: str) -> bool:
    return key.rpartition("].")[2].startswith("event:")
