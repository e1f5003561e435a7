"""Stores quotes, their results and their sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from regente.engine.database import TaskConnection
from regente.engine.task import Task
from regente.pipelines.quotes.models import Analysed, Appraisal, Evidence, QuoteArgs
from regente.pipelines.quotes.queries import QUERIES


async def put_result(
    connection: TaskConnection,
    task: Task[QuoteArgs],
    analysed: Analysed,
    evidence: Sequence[Evidence],
    appraisal: Appraisal,
    currency: str,
) -> None:
    """Store the result with its evidence, in place of what an earlier attempt stored."""
    found = appraisal.statistics
    await QUERIES.execute(
        connection,
        "put_result",
        id=task.id,
        batch_id=task.batch_id,
        description=task.args.description,
        reference=task.args.reference,
        kind=analysed.analysis.kind,
        search_query=analysed.analysis.search_query,
        currency=currency,
        analysis=analysed.model_dump_json(),
        value=found.value if found else None,
        statistics=found.model_dump_json() if found else None,
    )
    rows = [
        {**one.model_dump(mode="json"), "outlier": one.position in appraisal.outliers}
        for one in evidence
    ]
    await QUERIES.execute(connection, "put_sources", id=task.id, sources=json.dumps(rows))


async def put_screenshot(
    connection: TaskConnection, task: Task[QuoteArgs], evidence: Evidence
) -> None:
    await QUERIES.execute(
        connection,
        "put_screenshot",
        id=task.id,
        batch_id=task.batch_id,
        description=task.args.description,
        reference=task.args.reference,
        position=evidence.position,
        page_sha256=evidence.page_sha256,
        png=evidence.screenshot,
    )


async def note_new(
    connection: AsyncConnection[Any],
    ids: Sequence[int],
    quotes: Sequence[QuoteArgs],
    lot: str | None,
) -> None:
    """Store a row for each, so that a quote can be found before work on it begins."""
    await QUERIES.execute(
        connection,
        "new_quotes",
        ids=list(ids),
        descriptions=[quote.description for quote in quotes],
        references=[quote.reference for quote in quotes],
        lot=lot,
    )
