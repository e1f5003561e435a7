"""Every setting of a worker; `REGENTE_WORKER_<NAME>` in the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="REGENTE_WORKER_", frozen=True, extra="ignore")

    api_key: SecretStr = Field(min_length=8, description="what `x-api-key` must be")
    data_dir: Path = Field(description="jobs and results; one worker at a time uses it")
    target: str = Field(
        pattern=r"^https?://[^\s]+$", max_length=2000, description="base URL of the ad library"
    )
    keep_days: float = Field(
        7.0, gt=0, description="how long finished jobs and their results are kept"
    )

    phase_seconds: float = Field(
        0.0, ge=0, le=60, description="a pause before each phase of a session's start"
    )
    page_delay_seconds: float = Field(0.0, ge=0, le=600, description="a pause between two pages")
    request_timeout_seconds: float = Field(30.0, gt=0, le=600)
    connect_timeout_seconds: float = Field(
        10.0, gt=0, le=600, description="to reach the proxy, and the target through it"
    )
    stuck_seconds: float = Field(
        120.0, gt=0, description="a session without progress for so long is stuck"
    )
    page_attempts: int = Field(4, ge=1, le=20, description="tries of one page before the job fails")
    backoff_seconds: float = Field(
        1.0, ge=0, description="before the second try of a page; doubles, with jitter"
    )
    max_backoff_seconds: float = Field(20.0, ge=0)
    throttle_patience_seconds: float = Field(
        5.0, ge=0, description="a longer Retry-After fails the job as throttled"
    )

    max_body_bytes: int = Field(1_000_000, ge=1000)
    requests_per_minute: int = Field(
        1200, ge=1, description="per client; more are answered with 429"
    )
    busy_retry_after_seconds: float = Field(
        10.0, ge=0, description="Retry-After for a scrape asked of a busy worker"
    )
    storage_needs_key: bool = Field(False, description="ask for the key at /storage as well")
