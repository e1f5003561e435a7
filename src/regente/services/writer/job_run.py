"""Runs one job: read the source, cut it into batches, store them; restart the read after an outage.

The next batch is read and prepared while one is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from tenacity import AsyncRetrying, retry_if_exception_type

from regente.contracts.writer import WriterStatus
from regente.services.writer.batch import Batch, make_batch
from regente.services.writer.catalogue import Table, read_table
from regente.services.writer.config import WriterConfig
from regente.services.writer.database import Pool
from regente.services.writer.failures import (
    JobFailure,
    SourceError,
    WriterCode,
    database_failure,
    is_transient,
)
from regente.services.writer.jobs import Job, Jobs
from regente.services.writer.json_outline import enter_array, leave_document, split_path
from regente.services.writer.json_rows import RowReader
from regente.services.writer.json_window import Window
from regente.services.writer.loading import Loader
from regente.services.writer.queries import QUERIES
from regente.services.writer.source import OpenSource, Pace, Sources, safe_url

T = TypeVar("T")

logger = logging.getLogger("regente.writer")

_MAX_BACKOFF_SECONDS = 30.0
# Bounds how long a writer that is paused in a batch keeps its row locks.
_BATCH_TIMEOUTS = {"idle": "60s", "lock": "30s"}


class LoopGate:
    """Lets reading and storing share one event loop: the next batch is prepared while PostgreSQL
    works, not while it waits for the loop to send data."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._opened.set()

    def close(self) -> None:
        """Rows are being sent: block the preparation of the next batch."""
        self._opened.clear()

    def open(self) -> None:
        self._opened.set()

    async def wait(self) -> None:
        await self._opened.wait()


class JobRun:
    def __init__(self, jobs: Jobs, pool: Pool, sources: Sources, config: WriterConfig) -> None:
        self._jobs = jobs
        self._pool = pool
        self._sources = sources
        self._config = config

    async def run(self, job: Job) -> None:
        failure: JobFailure | None = None
        try:
            if job.claims > self._config.max_claims_without_rows:
                raise JobFailure(
                    WriterCode.GENERIC,
                    f"given up: claimed {job.claims - 1} times without storing a row",
                )
            await self._store_all(job)
            total = job.processed
        except JobFailure as error:
            failure, total = error, None
        status, failure = _final_status(job, failure)
        await self._jobs.end(job, status, failure, total=total)
        summary = (
            job.job_id,
            status,
            job.success_count,
            job.failed_count,
            failure.message if failure else "no error",
        )
        logger.info("job %s %s: %d stored, %d failed; %s", *summary)

    async def _store_all(self, job: Job) -> None:
        tries, pace = 0, Pace(self._config)
        while True:
            before = job.processed
            try:
                return await self._read_once(job, pace)
            except SourceError as error:
                failure: JobFailure = error
            except psycopg.Error as error:
                failure = database_failure(error)
                if not is_transient(error):
                    raise failure from error
            await self._refresh(job)
            tries = 1 if job.processed > before else tries + 1
            if tries >= self._config.source_tries:
                raise JobFailure(failure.code, f"{failure.message} (tried {tries} times)")
            logger.warning(
                "job %s at row %d: %s; trying again", job.job_id, job.processed, failure.message
            )
            await asyncio.sleep(self._pause_seconds(tries))

    async def _refresh(self, job: Job) -> None:
        """An outage of the database costs no try: it is waited for."""
        waiting = AsyncRetrying(
            retry=retry_if_exception_type(psycopg.OperationalError),
            wait=lambda state: self._pause_seconds(state.attempt_number),
        )
        await waiting(self._jobs.refresh, job)

    def _pause_seconds(self, tries: int) -> float:
        longest: float = min(
            self._config.backoff_seconds * 2.0 ** min(tries - 1, 10), _MAX_BACKOFF_SECONDS
        )
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    async def _read_once(self, job: Job, pace: Pace) -> None:
        async with self._pool.connection() as connection:
            table = await read_table(connection, job.target)
            await self._read_into(connection, job, table, pace)

    async def _read_into(
        self, connection: AsyncConnection[Any], job: Job, table: Table, pace: Pace
    ) -> None:
        gate = LoopGate()
        loader = Loader(job.target, table, gate.open)
        logger.info("job %s: reading %s from row %d", job.job_id, safe_url(job.url), job.processed)
        async with self._sources.open(job.url, job.headers, pace) as source:
            await self._check_version(job, source)
            async with contextlib.aclosing(
                _prefetched(self._batches(job, source, table, gate))
            ) as batches:
                async for batch in batches:
                    gate.close()
                    try:
                        await self._store(connection, job, loader, batch)
                    finally:
                        gate.open()

    async def _check_version(self, job: Job, source: OpenSource) -> None:
        if job.version is None:
            await self._jobs.note_source(job, source.version)
        elif change := source.version.differs_from(job.version):
            raise JobFailure(WriterCode.STORAGE, f"the source changed between two reads: {change}")

    async def _batches(
        self, job: Job, source: OpenSource, table: Table, gate: LoopGate
    ) -> AsyncGenerator[Batch]:
        path, done, index = split_path(job.json_path), job.processed, 0
        async with contextlib.aclosing(source.chunks()) as chunks:
            window = Window(chunks, limit_bytes=self._config.row_bytes)
            await enter_array(window, path)
            bounds = {"batch_bytes": self._config.batch_bytes, "row_bytes": self._config.row_bytes}
            reader = RowReader(window, **bounds, before_decoding=gate.wait)
            async for rows in reader.batches():
                fresh = rows[max(done - index, 0) :]
                index += len(rows)
                if fresh:
                    yield make_batch(index - len(fresh), fresh, job.target, table)
            await leave_document(window, len(path))
        if index < done:
            message = (
                f"the source changed between two reads: {done:,} of its rows are stored, "
                f"and it now has {index:,}"
            )
            raise JobFailure(WriterCode.STORAGE, message)

    async def _store(
        self, connection: AsyncConnection[Any], job: Job, loader: Loader, batch: Batch
    ) -> None:
        """Commit asynchronously: a server crash rolls back rows and progress together, and the
        synchronous commit that ends the job makes all earlier ones durable."""
        async with connection.transaction():
            await connection.execute(QUERIES["begin_batch"], _BATCH_TIMEOUTS)
            failed = await loader.load(connection, batch)
            await self._jobs.note_progress(connection, job, batch.size, failed)
        job.processed += batch.size
        job.failed_count += len(failed)
        job.success_count += batch.size - len(failed)


def _final_status(job: Job, failure: JobFailure | None) -> tuple[WriterStatus, JobFailure | None]:
    if failure is not None:
        return WriterStatus.FAILED, failure
    if not job.failed_count:
        return WriterStatus.COMPLETED, None
    if job.success_count:
        return WriterStatus.PARTIAL, None
    return WriterStatus.FAILED, JobFailure(
        WriterCode.SCHEMA, f"none of the {job.failed_count:,} rows could be stored"
    )


async def _prefetched(source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Prepare the next item while the current one is used; raise its error on request."""
    upcoming = asyncio.ensure_future(anext(source, None))
    try:
        while (one := await upcoming) is not None:
            upcoming = asyncio.ensure_future(anext(source, None))
            yield one
    finally:
        upcoming.cancel()
        await asyncio.wait([upcoming])
        if not upcoming.cancelled():
            upcoming.exception()
        await source.aclose()
