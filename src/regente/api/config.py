"""What the API allows, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from regente.api.stream.config import StreamConfig


@dataclass(frozen=True, slots=True)
class ApiConfig:
    authentication: bool = True
    """Without it everybody who reaches the API is its admin: only ever on the
    loopback interface."""
    path_prefix: str = ""
    """Where the API lies when it is not at the root, like `/regente`."""
    max_body_bytes: int = 4 * 1024 * 1024
    max_json_depth: int = 50
    requests_per_second: float = 100.0
    request_burst: int = 400
    """Per key."""
    wrong_keys_per_second: float = 1.0
    wrong_key_burst: int = 20
    """Per address."""
    session_hours: float = 12.0
    sign_in_minutes: float = 30.0
    """How long a sign-in link may be used, once."""
    statement_seconds: float = 10.0
    """How long one question to the database may take."""
    inline_items: int = 200
    """A bulk action on more than so many runs in the background."""
    chunk_items: int = 500
    action_lease_seconds: float = 30.0
    """Silent for so long, a process loses its bulk actions to another."""
    export_rows: int = 100_000
    stream: StreamConfig = field(default_factory=StreamConfig)
    metrics_seconds: float = 5.0
    """How old the database's figures under /metrics may be."""

    def __post_init__(self) -> None:
        if self.path_prefix and (
            not self.path_prefix.startswith("/") or self.path_prefix.endswith("/")
        ):
            raise ValueError(
                "a path prefix begins with a slash and does not end with one, like /regente"
            )
