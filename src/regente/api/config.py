"""The API's configuration: limits, lifetimes and intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

from regente.api.oidc.config import OidcConfig
from regente.api.stream.config import StreamConfig


@dataclass(frozen=True, slots=True)
class ApiConfig:
    authentication: bool = True
    """Without it every request is an admin's: only for the loopback interface."""
    path_prefix: str = ""
    """The path under which the API is served, like `/regente`."""
    public_url: str | None = None
    """How browsers reach the API; without it, by the address on which it listens."""
    oidc: OidcConfig | None = None
    """The OpenID Connect provider that people may sign in with."""
    max_body_bytes: int = 4 * 1024 * 1024
    max_json_depth: int = 50
    requests_per_second: float = 100.0
    request_burst: int = 400
    """Per key."""
    wrong_keys_per_second: float = 1.0
    wrong_key_burst: int = 20
    """Per address."""
    session_hours: float = 12.0
    session_idle_minutes: float = 120.0
    """A session ends that long after its last request, and at the latest after its hours."""
    provider_sign_ins_per_second: float = 5.0
    provider_sign_in_burst: int = 100
    """Sign-ins with the provider that begin or fail, per address."""
    sign_in_minutes: float = 30.0
    """How long a sign-in link is valid."""
    statement_seconds: float = 10.0
    """Timeout of a query."""
    inline_items: int = 200
    """A bulk action on more items runs in the background."""
    chunk_items: int = 500
    action_lease_seconds: float = 30.0
    """A process that does not renew its lease for so long loses its bulk actions to another."""
    export_rows: int = 100_000
    stream: StreamConfig = field(default_factory=StreamConfig)
    metrics_seconds: float = 5.0
    """Maximum age of the database's metrics."""

    @property
    def is_https(self) -> bool:
        return (self.public_url or "").startswith("https://")

    def __post_init__(self) -> None:
        if self.path_prefix and (
            not self.path_prefix.startswith("/") or self.path_prefix.endswith("/")
        ):
            raise ValueError(
                "a path prefix must begin with a slash and not end with one, like /regente"
            )
