"""Database transactions of pipelines, committed under the fence with the record of their step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace

import psycopg
from psycopg.pq import TransactionStatus

from regente.engine.crashpoints import crash_point
from regente.engine.database import TaskConnection, is_lost
from regente.engine.errors import Fatal, LeaseLost, Throttled
from regente.engine.retry import outage_wait_seconds
from regente.engine.task_store import StepRecord, TaskStore


@dataclass(slots=True)
class OpenTransaction:
    """What a transaction has until its commit: its connection, and the step's output."""

    connection: TaskConnection
    output: str | None = None


@contextlib.asynccontextmanager
async def fenced_transaction(
    store: TaskStore, record: StepRecord, is_taken_over: Callable[[], bool]
) -> AsyncIterator[OpenTransaction]:
    """A transaction that commits with the record; without a name that is only the fence."""
    what = record.name or "a transaction"
    started_at = time.monotonic()
    try:
        async with store.transactions.connection() as connection, connection.transaction():
            opened = OpenTransaction(connection)
            with _no_silent_rollback(record.name):
                yield opened
            if connection.info.transaction_status is TransactionStatus.IDLE:
                raise Fatal(f"{what} ended its transaction itself", code="TRANSACTION_ENDED")
            mark = replace(record, output=opened.output, duration_ms=ms_since(started_at))
            if is_taken_over() or not await store.mark_on(connection, mark):
                raise LeaseLost(
                    f"task {record.claim.id} was taken over before {what} was committed"
                )
            crash_point("transaction.before_commit")
    except psycopg.Error as error:
        if not is_lost(error) or isinstance(error, psycopg.errors.QueryCanceled):
            raise
        # Another runner may have ended the session.
        if is_taken_over() or store.lease_is_over():
            raise LeaseLost(f"task {record.claim.id} was taken over") from error
        # Not the task's fault, so no try is charged.
        raise Throttled(
            f"the database went away during {what}: {error}",
            retry_after=outage_wait_seconds(record.claim.attempt),
            code="DATABASE_LOST",
        ) from error


def ms_since(started_at: float) -> float:
    return round((time.monotonic() - started_at) * 1000, 3)


@contextlib.contextmanager
def _no_silent_rollback(key: str | None) -> Iterator[None]:
    """psycopg ends a transaction without an error at `Rollback`; a step would neither be done nor
    fail."""
    try:
        yield
    except psycopg.Rollback as rollback:
        if key is None:
            raise
        raise Fatal(
            f"{key} raised psycopg.Rollback: nothing was stored", code="ROLLED_BACK"
        ) from rollback
