"""The stream's configuration: limits, lifetimes and intervals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamConfig:
    ring_events: int = 20_000
    """Latest events, kept for all clients. A live client that falls further behind is dropped."""
    ring_bytes: int = 32 * 1024 * 1024
    prefill_events: int = 1000
    """Events that are read for the first client, so that after a restart most clients find their
    position in the ring buffer."""
    page_events: int = 1000
    chunk_bytes: int = 32_768
    """Maximum size of what one client is sent at once."""
    busy_seconds: float = 0.05
    idle_seconds: float = 0.5
    """Pauses between two reads of the feed: while events come, and when there are none. Without a
    notification, events reach the clients within a second."""
    linger_seconds: float = 5.0
    """How long the reader continues without clients."""
    heartbeat_seconds: float = 10.0
    send_seconds: float = 20.0
    """A client that reads nothing for so long is dropped."""
    lifetime_seconds: float = 3600.0
    session_lifetime_seconds: float = 600.0
    """Then the stream ends, and the client reconnects with its credentials; sooner with a session,
    which may have ended."""
    check_seconds: float = 1.0
    """Interval of the checks that the clients' keys and sessions are valid."""
    backlogs: int = 2
    """How many clients may read missed events from the database at the same time."""
    max_clients: int = 1000
    max_clients_per_key: int = 50
    details_bytes: int = 8192
    """Longer details are left out."""
    retry_seconds: float = 2.0
    """Delay after which a browser reconnects."""
