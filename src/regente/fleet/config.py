"""The fixed parameters of the original specification (8.2–8.4), in one place. Tests and the demo
make them shorter."""

from __future__ import annotations

from dataclasses import dataclass, field

from regente.contracts.writer import Target


@dataclass(frozen=True, slots=True)
class FleetConfig:
    timeout_session_seconds: float = 180.0
    timeout_job_seconds: float = 6000.0
    polling_session_seconds: float = 10.0
    polling_job_seconds: float = 30.0
    polling_orchestrator_seconds: float = 5.0
    max_proxy_failures: int = 3
    outage_seconds: float = 180.0
    """How long a worker or writer may be away, in the midst of something, before that counts as its
    failure."""
    cancel_seconds: float = 30.0
    """How long a worker may take to confirm a cancel before its session is ended."""
    watch_seconds: float = 1.0
    """How often a runner looks for what other runners did to its workers."""
    error_backoff_seconds: float = 5.0
    """How long a worker rests after a session that failed; doubled for each one in a row, up to
    `error_backoff_limit`."""
    error_backoff_limit_seconds: float = 300.0
    http_timeout_seconds: float = 30.0
    max_returns: int = 20
    """How often a mission may go back to the queue without a fault of its own."""
    breaker_share: float = 0.5
    """When more than this part of the proxies failed within the window, the target is to blame:
    none is deactivated."""
    breaker_window_seconds: float = 300.0
    proxy_test_url: str | None = None
    json_path: str = "ads"
    target: Target = field(
        default_factory=lambda: Target(
            table="ads", schema_="public", operation="upsert", conflict_key="id"
        )
    )
