"""Changes to tasks that wait: priority, time, lane, limit of attempts, and arguments before the
first attempt. Each is an event that names what changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from regente.engine.codec import encode
from regente.engine.crashpoints import crash_point
from regente.engine.database import ClientDatabase, number_array
from regente.engine.enqueue import BY_PIPELINE, Enqueuer, check_options
from regente.engine.errors import IllegalTransition, InvalidArgs, InvalidInput
from regente.engine.hints import Hints, new_tasks
from regente.engine.lanes import checked_lane
from regente.engine.models import TaskInfo

CHUNK = 500  # the tasks of one statement, which holds their locks until its commit


class Changes(TypedDict, total=False):
    """What is to be changed. `run_at=None` is now, `lane=None` no lane, `max_attempts=None` the
    pipeline's own number."""

    priority: int
    run_at: datetime | None
    lane: str | None
    max_attempts: int | None


class TaskChanges:
    def __init__(self, database: ClientDatabase, intake: Enqueuer, hints: Hints) -> None:
        self._database = database
        self._intake = intake
        self._hints = hints

    async def apply(self, ids: Sequence[int], changes: Changes, details: str | None) -> list[int]:
        """Change those of the tasks that can be changed; their ids."""
        checked = _checked(changes)
        if not checked:
            raise InvalidInput(f"what is to be changed? {', '.join(Changes.__annotations__)}")
        ordered = sorted(set(ids))
        done: list[int] = []
        for start in range(0, len(ordered), CHUNK):
            done += await self._apply(ordered[start : start + CHUNK], checked, None, details)
        return done

    async def apply_args(
        self, task: TaskInfo, args: Any, changes: Changes, details: str | None
    ) -> bool:
        """Change one task, its arguments too; they and its lane are checked as those of a new
        task."""
        checked = _checked(changes)
        given = checked.get("lane", BY_PIPELINE)
        text, lane = self._intake.checked(task.pipeline, args, given)
        known = self._intake.knows_lanes_of(task.pipeline)
        if known is None:
            await self._check_by_schema(task.pipeline, text, given)
        elif known and given is BY_PIPELINE:
            checked["lane"] = lane
        return bool(await self._apply([task.id], checked, text, details))

    async def _check_by_schema(self, pipeline: str, args: str, lane: Any) -> None:
        """This process has no code of the pipeline: what its runners have registered decides."""
        rows = await self._database.fetch("check_args", {"pipeline": pipeline, "args": args})
        for problem, tells_lanes in rows:
            if problem is not None:
                raise InvalidArgs(f"{pipeline}'s arguments are not valid: {problem}")
            if tells_lanes and lane is BY_PIPELINE:
                raise InvalidInput(
                    f"the code of {pipeline} tells the lane of other arguments: give the lane, too"
                )

    async def _apply(
        self, ids: Sequence[int], changes: dict[str, Any], args: str | None, details: str | None
    ) -> list[int]:
        params = {
            "ids": number_array(ids),
            "changes": encode(changes, what="the changes"),
            "args": args,
            "details": details,
        }
        done = [row[0] for row in await self._database.fetch("change_tasks", params)]
        crash_point("change.committed")
        if done:
            rows = await self._database.fetch("due_of_tasks", {"ids": number_array(done)})
            self._hints.send(new_tasks(rows))
        return done


def refused(task: TaskInfo, changes: Changes, *, with_args: bool) -> IllegalTransition:
    """Why a task was not changed, as it is now."""
    if task.status not in ("draft", "queued"):
        why = f"is {task.status}: only queued tasks and drafts can be changed"
    elif with_args and task.attempt > 0:
        why = "has started: its steps were done with its arguments"
    elif "run_at" in changes:
        why = "is held or waits for another: it has no time of its own"
    else:
        why = "was changed by another session: try again"
    return IllegalTransition(f"task {task.id} {why}")


def _checked(changes: Changes) -> dict[str, Any]:
    check_options(
        (), changes.get("priority", 0), changes.get("run_at"), changes.get("max_attempts")
    )
    if "lane" in changes:
        checked_lane(changes["lane"])
    return dict(changes)
