"""The fixed parameters of the specification (8.2–8.4); tests and the demo shorten them."""

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
    """Outage of a worker or writer after which its job fails."""
    cancel_seconds: float = 30.0
    """Time for a worker to confirm a cancel before its session is ended."""
    watch_seconds: float = 1.0
    """Interval at which a runner reads what other runners did to its workers."""
    error_backoff_seconds: float = 5.0
    """Pause of a worker after a failed session; doubles per failure in a row, up to the limit."""
    error_backoff_limit_seconds: float = 300.0
    http_timeout_seconds: float = 30.0
    max_returns: int = 20
    """How often a mission may return to the queue without its own fault."""
    breaker_share: float = 0.5
    """Share of failed proxies above which the target is to blame and none is deactivated."""
    breaker_window_seconds: float = 300.0
    proxy_test_url: str | None = None
    json_path: str = "ads"
    target: Target = field(
        default_factory=lambda: Target(
            table="ads", schema_="public", operation="upsert", conflict_key="id"
        )
    )
