"""The settings that can be changed at run time, as one list for the API and the command line."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regente.engine.errors import InvalidInput
from regente.engine.retention import RETENTION, RetentionTime

if TYPE_CHECKING:
    from regente.pipelines.missions.operations import MissionOperations


class RuntimeSettings:
    def __init__(self, missions: MissionOperations, retention: RetentionTime) -> None:
        self._missions = missions
        self._retention = retention

    async def all(self) -> dict[str, Any]:
        return {**asdict(await self._missions.settings()), RETENTION: await self._retention.days()}

    async def set(self, key: str, value: Any, *, by: str = "user") -> dict[str, Any]:
        known = await self.all()
        if key not in known:
            raise InvalidInput(f"there is no setting {key!r}; known: {', '.join(known)}")
        if key == RETENTION:
            await self._retention.set(value, by=by)
        else:
            await self._missions.set(key, value, by=by)
        return await self.all()
