"""A client of the live feed that reconnects for ever, and what it was told."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import httpx2

from tests.api.stream.sse import stream


@dataclass(slots=True)
class Stretch:
    """What came without a gap: the events after a position."""

    start: str
    seen: list[str] = field(default_factory=list)


class Follower:
    """Each `resync` begins a new stretch."""

    def __init__(self, url: str, key: str) -> None:
        self.stretches: list[Stretch] = []
        self.position: str | None = None
        self._url = url
        self._key = key

    async def follow(self) -> None:
        while True:
            async with httpx2.AsyncClient(
                base_url=self._url, headers={"x-api-key": self._key}, trust_env=False
            ) as client:
                with contextlib.suppress(httpx2.HTTPError, AssertionError):
                    await self._read(client)
            await asyncio.sleep(0.1)  # no busy loop while the API cannot reach its database

    async def _read(self, client: httpx2.AsyncClient) -> None:
        async with stream(client, self.position) as source:
            async for frame in source:
                if frame.name == "resync" or self.position is None:
                    self.stretches.append(Stretch(frame.id))
                if frame.name == "message":
                    self.stretches[-1].seen.append(frame.id)
                self.position = frame.id
