"""What the stream allows, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamConfig:
    ring_events: int = 20_000
    """The latest events, kept for all clients together. Who falls further behind than that while
    live is dropped."""
    ring_bytes: int = 32 * 1024 * 1024
    prefill_events: int = 1000
    """So many are read back when the first client comes: after a restart most find their place
    without the database."""
    page_events: int = 1000
    chunk_bytes: int = 32_768
    """How much one client is given at once."""
    busy_seconds: float = 0.05
    idle_seconds: float = 0.5
    """The pause between two looks at the feed: while there are events, and when there are none. A
    page shows what happened within a second, also what nobody was notified of."""
    linger_seconds: float = 5.0
    """How long the reader goes on without a client."""
    heartbeat_seconds: float = 10.0
    send_seconds: float = 20.0
    """A client that takes nothing for so long is dropped."""
    lifetime_seconds: float = 3600.0
    session_lifetime_seconds: float = 600.0
    """Then the stream ends, and the client comes again with its credentials; with a session, that
    may have ended, sooner."""
    check_seconds: float = 15.0
    """How often the clients' keys are looked at."""
    backlogs: int = 2
    """How many clients may read what they missed from the database at the same time."""
    max_clients: int = 1000
    details_bytes: int = 8192
    """Longer details are left out."""
    retry_seconds: float = 2.0
    """When a browser whose stream broke comes again."""
