"""The small campaign: every bad document once, a stall, three resumes at once, a killed runner."""

from __future__ import annotations

from pathlib import Path

from regente.pipelines.documents.models import ExecutionStatus
from tests.pipelines.documents.faults.campaign import run_campaign
from tests.pipelines.documents.faults.checker import summary
from tests.pipelines.documents.faults.plan import plan


async def test_every_bad_document_is_explained_and_the_execution_ends(
    database_url: str, tmp_path: Path
) -> None:
    """W1 to W5, W7 to W9, F1, F15, I1, I2: each document is checked."""
    planned = plan(60, seed=1)
    found = await run_campaign(
        database_url, tmp_path, planned, skip_waits=True, kill=True, wait_seconds=120
    )
    assert found.faults == []
    assert (found.execution.status, found.winners, found.runner_status) == (
        ExecutionStatus.CONCLUIDO,
        1,
        0,
    )
    counts = {state: count for state, count in found.execution.documentos if count}
    assert counts == summary(planned)
