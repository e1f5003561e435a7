"""Configuration of a writer: target tables, reachable addresses, and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_TARGET = "public.ads"
MIN_KEY_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterConfig:
    database_url: str = field(repr=False)
    api_key: str = field(repr=False)
    targets: frozenset[str] = frozenset({DEFAULT_TARGET})
    """The tables that jobs may write to, as `schema.table`."""
    create_ads: bool = False
    """Create `public.ads` at start-up when it is missing."""
    allow_private: bool = False
    """Also read from private and loopback addresses; link-local ones (cloud metadata) never.
    """

    concurrent_jobs: int = 4
    waiting_jobs: int = 1_000
    """More unfinished jobs than this get 429."""
    requests_per_second: float = 50.0
    request_burst: int = 100
    body_bytes: int = 64 * 1024

    source_bytes: int = 10 * 1024**3
    """After decompression."""
    row_bytes: int = 16 * 1024**2
    batch_bytes: int = 2_000_000
    source_tries: int = 4
    """Consecutive tries without progress."""
    backoff_seconds: float = 0.5
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    least_bytes_per_second: int = 1024
    """A source that is slower on average, after `read_seconds` of waiting for it, fails the job."""
    source_seconds: float = 6 * 3600.0
    """So long a job waits for its source, in all its reads together, but not for the database."""
    wrong_keys_per_second: float = 1.0
    wrong_key_burst: int = 20
    """Per address."""

    lease_seconds: float = 20.0
    poll_seconds: float = 1.0
    max_claims_without_rows: int = 5
    """Claims without a stored row after which a job fails."""
    shown_failed_items: int = 1_000
    keep_days: float = 30.0
    """How long ended jobs are kept."""

    def __post_init__(self) -> None:
        if len(self.api_key) < MIN_KEY_CHARACTERS:
            raise ValueError(
                f"the writer needs an API key of at least {MIN_KEY_CHARACTERS} characters"
            )
        for target in self.targets:
            if target.count(".") != 1 or not all(target.split(".")):
                raise ValueError(f"a target is written as schema.table, not {target!r}")
