"""Before a deploy: would the new code understand what tasks in flight have recorded?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from regente.engine.database import Database, number_array, text_array
from regente.engine.dry_replay import RecordedTask, replay
from regente.engine.models import ReplayCheck
from regente.engine.pipeline import Registry
from regente.engine.registration import read_installation
from regente.engine.task_store import Claim, Installation, Recorded

CHUNK = 500


async def tasks_in_flight(
    database: Database, pipelines: Sequence[str], limit: int
) -> list[RecordedTask]:
    """The oldest begun tasks of these pipelines, with all that they have recorded."""
    params = {"pipelines": text_array(list(pipelines)), "limit": limit}
    ids = [row[0] for row in await database.fetch("tasks_in_flight", params)]
    found: list[RecordedTask] = []
    for first in range(0, len(ids), CHUNK):
        found += await _recorded(database, ids[first : first + CHUNK])
    return found


async def count_in_flight(database: Database) -> dict[str, int]:
    """How many tasks of each pipeline have begun and not ended."""
    return dict(await database.fetch("count_in_flight"))


async def installation_of(database: Database) -> Installation:
    return await read_installation(database.fetch)


async def check_replays(
    registry: Registry, tasks: Sequence[RecordedTask], installation: Installation
) -> list[ReplayCheck]:
    """Replay each task against the pipelines of this process. Effects of the whole process are
    refused meanwhile."""
    found = []
    for task in tasks:
        pipeline = registry.get(task.claim.pipeline)
        if pipeline is not None:
            found.append(await replay(pipeline, task, installation))
    return found


async def _recorded(database: Database, ids: Sequence[int]) -> list[RecordedTask]:
    params = {"ids": number_array(ids)}
    steps: dict[int, dict[str, dict[int, Recorded]]] = defaultdict(dict)
    for task_id, name, item, output, call in await database.fetch("steps_to_replay", params):
        steps[task_id].setdefault(name, {})[item] = Recorded(output, call)
    spawned: dict[int, dict[str, tuple[int, str]]] = defaultdict(dict)
    for task_id, step, batch_id, call in await database.fetch("children_to_replay", params):
        spawned[task_id][step] = (batch_id, call)
    intents: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for task_id, *intent in await database.fetch("intents_to_replay", params):
        intents[task_id].append(tuple(intent))
    return [
        RecordedTask(Claim(*row), steps[row[0]], spawned[row[0]], intents[row[0]])
        for row in await database.fetch("claims_to_replay", params)
    ]
