"""A held task: `queued`, but not due before it is released."""

from __future__ import annotations

from datetime import UTC, datetime

HELD = datetime(9000, 1, 1, tzinfo=UTC)
"""The `run_at` of a held task. SQL recognizes it with `regente.is_held(run_at)`."""
