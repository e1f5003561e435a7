"""All settings, read from the environment once, by the composition root only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.lease import LeaseConfig
from regente.engine.pool_sizes import LEAST_CONNECTIONS, PoolSizes
from regente.engine.retention import AUDIT_DAYS, DAY_SECONDS, MIN_AUDIT_DAYS
from regente.engine.runner import RunnerConfig
from regente.engine.watchdog import WatchdogConfig
from regente.fleet.config import FleetConfig


class Settings(BaseSettings):
    """Each field is `REGENTE_<NAME>` in the environment; the lease has the original names too."""

    model_config = SettingsConfigDict(
        env_prefix="REGENTE_", frozen=True, extra="ignore", populate_by_name=True
    )

    database_url: str | None = Field(
        None, description="PostgreSQL to use; without it the embedded one is started"
    )
    builtins: str = Field(
        "all", description="pipelines that come with Regente and are on: all, none, or A,B"
    )
    sandbox_url: str = Field(
        "http://127.0.0.1:8100",
        description="`regente sandbox`: answers for providers without a key",
    )
    data_dir: Path | None = Field(None, description="where the embedded PostgreSQL keeps its data")
    database_connections: int | None = Field(
        None,
        ge=LEAST_CONNECTIONS,
        le=4000,
        description="connections that a runner's process opens at most; default: half as many as "
        "the tasks that it runs at once, but 10 to 32",
    )
    database_pool_size: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="of these, connections for pipelines' own transactions, and as many for calls "
        "inside them",
    )
    concurrency: int = Field(
        100, ge=1, le=100_000, description="tasks that one runner runs at once"
    )
    drain_seconds: float = Field(
        30.0, ge=0, description="time for running tasks to finish after SIGTERM"
    )
    lock_ttl_ms: int = Field(
        60_000,
        ge=100,
        validation_alias=AliasChoices("REGENTE_LOCK_TTL_MS", "JOB_LOCK_TTL_MS", "lock_ttl_ms"),
    )
    heartbeat_interval_ms: int = Field(
        10_000,
        ge=10,
        validation_alias=AliasChoices(
            "REGENTE_HEARTBEAT_INTERVAL_MS", "JOB_HEARTBEAT_INTERVAL_MS", "heartbeat_interval_ms"
        ),
    )
    sweep_seconds: float = Field(
        10.0, gt=0, description="interval of the search for expired leases"
    )
    batches_seconds: float = Field(10.0, gt=0, description="interval of the review of open batches")
    schedules_seconds: float = Field(10.0, gt=0, description="interval of the check of schedules")
    retention_days: float = Field(
        30.0,
        gt=0,
        description="how long ended work is kept, unless the runtime setting is set; missions are "
        "kept until one of the two is set",
    )
    audit_days: float = Field(
        AUDIT_DAYS, ge=MIN_AUDIT_DAYS, description="how long the audit log is kept"
    )
    secret_key: str | None = Field(
        None,
        repr=False,
        description="encrypts the fleet's secrets; without it a key file in the data folder does",
    )
    former_secret_key: str | None = Field(
        None, repr=False, description="another key, which only decrypts: `regente secrets rotate`"
    )
    timeout_session: float = Field(180.0, gt=0, description="seconds until a session must be ready")
    timeout_job: float = Field(
        6000.0, gt=0, description="seconds that a scrape or a writer's job may take"
    )
    polling_session: float = Field(10.0, gt=0, description="seconds between polls of a session")
    polling_job: float = Field(30.0, gt=0, description="seconds between polls of a job")
    polling_orchestrator: float = Field(
        5.0, gt=0, description="seconds between rounds of the dispatcher"
    )
    outage_seconds: float = Field(
        180.0, gt=0, description="outage of a needed worker or writer that is tolerated"
    )
    cancel_seconds: float = Field(30.0, gt=0, description="time for a worker to confirm a cancel")
    error_backoff: float = Field(
        5.0, gt=0, description="first pause, in seconds, of a worker whose session failed"
    )
    max_proxy_failures: int = Field(
        3, ge=1, description="failures of its own after which a proxy is deactivated"
    )
    proxy_test_url: str | None = Field(
        None, description="URL that a proxy's test requests through it"
    )
    watch_seconds: float = Field(
        1.0, gt=0, description="interval at which a runner reads what others did to its workers"
    )
    http_timeout: float = Field(30.0, gt=0, description="seconds for a worker or writer to respond")
    otel: str | None = Field(
        None, description="traces: on, off, or the URL of an OpenTelemetry collector"
    )
    max_crashes: int = Field(
        3, ge=1, description="crashed runners of a task after which it is a dead letter"
    )

    def fleet_config(self) -> FleetConfig:
        return FleetConfig(
            timeout_session_seconds=self.timeout_session,
            timeout_job_seconds=self.timeout_job,
            polling_session_seconds=self.polling_session,
            polling_job_seconds=self.polling_job,
            polling_orchestrator_seconds=self.polling_orchestrator,
            outage_seconds=self.outage_seconds,
            cancel_seconds=self.cancel_seconds,
            watch_seconds=self.watch_seconds,
            error_backoff_seconds=self.error_backoff,
            max_proxy_failures=self.max_proxy_failures,
            proxy_test_url=self.proxy_test_url,
            http_timeout_seconds=self.http_timeout,
        )

    def pool_sizes(self, concurrency: int) -> PoolSizes:
        """The pools of a process with a runner of so many tasks at once."""
        given = self.database_connections
        sizes = PoolSizes.of(concurrency) if given is None else PoolSizes.within(given)
        most = self.database_pool_size
        return sizes if most is None else replace(sizes, tasks=most)

    def runner_config(self, *, concurrency: int | None = None, name: str = "") -> RunnerConfig:
        return RunnerConfig(
            concurrency=self.concurrency if concurrency is None else concurrency,
            drain_seconds=self.drain_seconds,
            lease=LeaseConfig(self.lock_ttl_ms / 1000, self.heartbeat_interval_ms / 1000),
            watchdog=WatchdogConfig(
                sweep_every_seconds=self.sweep_seconds,
                batches_every_seconds=self.batches_seconds,
                schedules_every_seconds=self.schedules_seconds,
                lanes_every_seconds=min(10.0, self.sweep_seconds),
                suspects_every_seconds=min(10.0, self.sweep_seconds),
                keep_seconds=self.retention_days * DAY_SECONDS,
                keep_was_set="retention_days" in self.model_fields_set,
                audit_seconds=self.audit_days * DAY_SECONDS,
                max_crashes=self.max_crashes,
            ),
            name=name,
        )
