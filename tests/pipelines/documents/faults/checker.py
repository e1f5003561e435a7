"""Compares each document with its plan, by the raw tables and the chat API's own counts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from regente.pipelines.documents.standins.openrouter import OpenRouter
from tests.pipelines.documents.faults.plan import Planned
from tests.support.audit import audit

DOCUMENTS = """
SELECT d.code, t.status::text AS status, t.tries, t.crashes, d.category, d.sha256, d.skip_code,
       d.skip_reason, t.error_code,
       t.error_message, (SELECT count(*) FROM regente.failures f
                         WHERE f.task_id = t.id AND f.class <> 'throttled') AS failures
FROM regente.documents d JOIN regente.tasks t ON t.id = d.task_id WHERE d.execution_id = %s
"""
WORDS = {"completed": "CONCLUIDO", "failed": "ERRO", "skipped": "PULADO"}


def faults(url: str, execution_id: int, planned: Sequence[Planned], chat: OpenRouter) -> list[str]:
    """Every deviation, in words; empty when all is as planned."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        rows = {row["code"]: row for row in connection.execute(DOCUMENTS, [execution_id])}
        batch = connection.execute(
            "SELECT status::text, total FROM regente.batches WHERE id = %s", [execution_id]
        ).fetchone()
    found = (
        []
        if batch == {"status": "completed", "total": len(planned)}
        else [f"the execution is {batch}"]
    )
    found += [fault for one in planned for fault in _of_document(one, rows.pop(one.code, None))]
    found += [f"{code}: it was not planned" for code in rows]
    found += [f"{key}: paid for {times} times" for key, times in chat.paid.items() if times != 1]
    with psycopg.connect(url) as connection:
        return found + audit(connection)


def _of_document(one: Planned, row: dict[str, Any] | None) -> Iterator[str]:
    if row is None:
        yield f"{one.code}: it is lost"
        return
    expected, status = one.expected, WORDS.get(row["status"], row["status"])
    if status != expected.status:
        yield (
            f"{one.code}: {status} instead of {expected.status} ({row['error_code']}: "
            f"{row['error_message']})"
        )
        return
    if status == "CONCLUIDO":
        if (row["category"], row["sha256"]) != (
            expected.category,
            hashlib.sha256(one.content).hexdigest(),
        ):
            yield (
                f"{one.code}: {row['category']} instead of {expected.category}, or of another "
                "content"
            )
    elif status == "PULADO":
        if row["skip_code"] not in expected.codes or not row["skip_reason"]:
            yield f"{one.code}: skipped for {row['skip_code']} instead of {expected.codes}"
    elif row["error_code"] not in expected.codes or not row["error_message"]:
        yield f"{one.code}: failed with {row['error_code']} instead of {expected.codes}"
    elif row["tries"] != expected.attempts or row["failures"] < expected.attempts:
        yield (
            f"{one.code}: {row['tries']} tries, {row['failures']} failures instead of "
            f"{expected.attempts}"
        )


def summary(planned: Sequence[Planned]) -> dict[str, int]:
    return dict(Counter(one.expected.status for one in planned))
