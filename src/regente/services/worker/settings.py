"""Settings of a worker, from the environment as `REGENTE_WORKER_<NAME>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="REGENTE_WORKER_", frozen=True, extra="ignore")

    api_key: SecretStr = Field(min_length=16, description="the required value of `x-api-key`")
    data_dir: Path = Field(description="folder of jobs and results; one worker at a time uses it")
    target: str = Field(
        pattern=r"^https?://[^\s]+$", max_length=2000, description="base URL of the ad library"
    )
    keep_days: float = Field(
        7.0, gt=0, description="days that finished jobs and their results are kept"
    )

    phase_seconds: float = Field(
        0.0, ge=0, le=60, description="pause before each phase of a session's start"
    )
    page_delay_seconds: float = Field(0.0, ge=0, le=600, description="pause between two pages")
    request_timeout_seconds: float = Field(30.0, gt=0, le=600)
    connect_timeout_seconds: float = Field(
        10.0, gt=0, le=600, description="to reach the proxy, and the target through it"
    )
    stuck_seconds: float = Field(
        120.0, gt=0, description="time without progress after which a session is stuck"
    )
    page_attempts: int = Field(4, ge=1, le=20, description="tries of one page before the job fails")
    backoff_seconds: float = Field(
        1.0, ge=0, description="pause before the second try of a page; doubles, with jitter"
    )
    max_backoff_seconds: float = Field(20.0, ge=0)
    throttle_patience_seconds: float = Field(
        5.0, ge=0, description="a longer Retry-After fails the job as throttled"
    )

    max_body_bytes: int = Field(1_000_000, ge=1000)
    requests_per_minute: int = Field(1200, ge=1, description="per client; more get 429")
    busy_retry_after_seconds: float = Field(
        10.0, ge=0, description="Retry-After for a scrape while another one runs"
    )
    storage_needs_key: bool = Field(False, description="require the key at /storage too")
