"""Registers the three pipelines of the missions."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from regente.engine.client import Client
from regente.engine.errors import InvalidInput
from regente.engine.pipeline import Pipeline, Registry
from regente.engine.retry import Retry
from regente.fleet.registry import Fleet
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.dispatcher import Dispatcher
from regente.pipelines.missions.driver import Driver, DriverArgs
from regente.pipelines.missions.mission import MissionPipeline
from regente.pipelines.missions.worker_watch import WorkerWatch

MIN_SLOTS = 3
PATIENT = Retry(max_attempts=1000, first=1.0, factor=2.0, maximum=60.0)
"""The rules of 7.2 decide when a mission fails. Other errors (a bug, a lost database) are retried
so often that they do not fail one."""


@dataclass(frozen=True, slots=True)
class MissionPipelines:
    worker_watch: WorkerWatch

    async def close(self) -> None:
        await self.worker_watch.close()


def with_room_for_missions(pipelines: list[Pipeline], slots: int) -> list[Pipeline]:
    """Limit the drivers to half of the slots: a driver waits for the mission that it assigned, so
    drivers in all slots would wait for ever."""
    if not {"missions", "workers"} <= {pipeline.name for pipeline in pipelines}:
        return pipelines
    if slots < MIN_SLOTS:
        raise InvalidInput(
            f"missions need a concurrency of {MIN_SLOTS} or more: the dispatcher, a "
            "driver and its mission"
        )
    drivers = (slots - 1) // 2
    return [
        replace(one, concurrency=drivers) if one.name == "workers" else one for one in pipelines
    ]


def register(host: Host) -> Registered:
    missions = register_missions(host.registry, host.client, host.fleet())
    return Registered(missions.close, with_room_for_missions)


def register_missions(registry: Registry, client: Client, fleet: Fleet) -> MissionPipelines:
    worker_watch = WorkerWatch(client.database, fleet.config.watch_seconds)
    grace_seconds = fleet.config.cancel_seconds + fleet.config.http_timeout_seconds
    # Each poll brings a heartbeat, and each call has its own timeout: a longer silence is a stall.
    stall_seconds = (
        2 * (fleet.config.polling_job_seconds + fleet.config.http_timeout_seconds)
        + fleet.config.outage_seconds
        + 60
    )
    lasting = functools.partial(
        registry.pipeline, endless=True, stall_after=stall_seconds, retry=PATIENT
    )
    # A driver's events are part of the log of the missions that ran in its sessions.
    lasting("missions", args=MissionArgs, grace=grace_seconds, keep=True)(
        MissionPipeline(fleet, worker_watch).mission
    )
    lasting("workers", args=DriverArgs, grace=10.0, keep=True)(
        Driver(client, fleet, worker_watch).drive
    )
    lasting("orchestrator")(Dispatcher(client, fleet).dispatch)
    return MissionPipelines(worker_watch)
