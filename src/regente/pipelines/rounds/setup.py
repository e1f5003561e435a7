"""Registers the pipelines `rounds` and `matches` in a process that runs them."""

from __future__ import annotations

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.rounds.args import MatchArgs, RoundArgs
from regente.pipelines.rounds.pipeline import MatchPipeline, RoundPipeline
from regente.pipelines.rounds.settings import RoundSettings
from regente.pipelines.rounds.site import Sites

ROUNDS_AT_ONCE = 2


def register(host: Host) -> Registered:
    http = HttpClient()
    register_rounds(host.registry, host.client, http, RoundSettings(), host.sandbox_url)
    return Registered(http.close)


def register_rounds(
    registry: Registry, client: Client, http: HttpClient, settings: RoundSettings, sandbox_url: str
) -> None:
    sites = Sites(http, settings, sandbox_url)
    # Each task fetches one page: without a heartbeat for longer it is stalled.
    stall_seconds = settings.page_seconds + 120
    registry.pipeline(
        "rounds",
        args=RoundArgs,
        retry=settings.retry,
        stall_after=stall_seconds,
        concurrency=ROUNDS_AT_ONCE,
    )(RoundPipeline(client, sites).discover)
    registry.pipeline(
        "matches",
        args=MatchArgs,
        retry=settings.retry,
        stall_after=stall_seconds,
        concurrency=settings.concurrency,
    )(MatchPipeline(client, sites, settings).match)
