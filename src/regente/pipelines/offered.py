"""The pipelines that come with Regente besides the missions, put together for a process that runs them.

The one place that knows all of them: each is a folder with a `setup.py` that registers it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.outgoing.http import Http
from regente.pipelines.missions.setup import PIPELINES as MISSIONS

OFFERED = (*MISSIONS,)


class SandboxSettings(BaseSettings):
    """Where the stand-ins are that answer for a provider without a key."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_", frozen=True, extra="ignore")

    sandbox_url: str = Field("http://127.0.0.1:8100", description="`regente sandbox`: answers for providers without a key")


@dataclass(frozen=True, slots=True)
class Offer:
    http: Http

    async def close(self) -> None:
        await self.http.close()


def offer(registry: Registry, client: Client) -> Offer:
    http = Http()
    return Offer(http)
