"""`regente run --pipelines quotes` as a process, for tests that end it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg

from tests.support.audit import audit
from tests.support.runner_process import LoggedProcess

QUICKLY = {
    "JOB_LOCK_TTL_MS": "30000",
    "JOB_HEARTBEAT_INTERVAL_MS": "200",
    "REGENTE_SWEEP_SECONDS": "0.2",
    "REGENTE_DRAIN_SECONDS": "10",
    "REGENTE_QUOTES_RETRY_SECONDS": "0.01",
    "REGENTE_MAX_CRASHES": "50",
    "REGENTE_DATABASE_POOL_SIZE": "4",
}


class QuoteRunner(LoggedProcess):
    def __init__(
        self,
        database_url: str,
        sandbox_url: str,
        folder: Path,
        *,
        concurrency: int = 20,
        environment: dict[str, str] | None = None,
    ) -> None:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REGENTE_", "JOB_"))
        }
        given = {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_SANDBOX_URL": sandbox_url,
            "REGENTE_DATA_DIR": str(folder),
        }
        words = ["regente", "run", "--pipelines", "quotes", "--concurrency", str(concurrency)]
        super().__init__(words, {**clean, **QUICKLY, **given, **(environment or {})})


def expire_leases(database_url: str) -> None:
    """Moves the leases' end into the past instead of waiting."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 "
            "second' WHERE status < 'stopped'"
        )


def audited(database_url: str) -> list[Any]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        return list(audit(connection))
