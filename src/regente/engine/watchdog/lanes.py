"""Makes lanes ready whose enqueue, or the end that made room, died before it could look at them.
Forgets lanes that are not used, and calls whose attempts are over."""

from __future__ import annotations

from regente.engine.database import Database
from regente.engine.lanes import look_at_lanes

KEEP_SECONDS = 7 * 86_400.0


class LaneSweep:
    name = "lanes"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> int:
        ready = await sweep_lanes(self._database)
        await self._database.fetch("forget_lanes", {"keep_seconds": KEEP_SECONDS})
        return ready


async def sweep_lanes(database: Database) -> int:
    """How many pipelines got lanes that are ready."""
    probing = await database.fetch("end_lost_probes")
    lost = await database.fetch("forget_lost_calls")
    changed = {(row[0], None) for row in [*probing, *lost]}
    ready = len(await look_at_lanes(database.fetch, changed))
    after = ("", "")
    while True:
        params = {"after_lane": after[0], "after_pipeline": after[1]}
        page = await database.fetch("lanes_to_look_at", params)
        wanted = [(lane, pipeline) for lane, pipeline, is_wanted in page if is_wanted]
        if wanted:
            ready += len(await look_at_lanes(database.fetch, wanted))
        if len(page) < 1000:
            return ready
        after = (page[-1][0], page[-1][1])
