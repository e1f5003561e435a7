"""One job from its source to its table: read, cut into batches, store, and read again when the
source or the database broke.

While one batch is stored the next one is read and made ready.
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
from regente.services.writer.queries import query
from regente.services.writer.source import OpenSource, Sources, safe_url

T = TypeVar("T")

logger = logging.getLogger("regente.writer")

_MAX_BACKOFF_SECONDS = 30.0
# A writer that is paused in the middle of a batch must not hold its rows for ever.
_BOUNDS = {"idle": "60s", "lock": "30s"}


class Turn:
    """Reading and storing share one loop. The next batch is made ready while PostgreSQL has work of
    its own, not while it waits for the loop to send it some."""

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()

    def take(self) -> None:
        """Rows are sent: nothing may hold up the loop."""
        self._free.clear()

    def give(self) -> None:
        self._free.set()

    async def wait(self) -> None:
        await self._free.wait()


class JobRun:
    def __init__(self, jobs: Jobs, pool: Pool, sources: Sources, config: WriterConfig) -> None:
        self._jobs = jobs
        self._pool = pool
        self._sources = sources
        self._config = config

    async def run(self, job: Job) -> None:
        failure: JobFailure | None = None
        try:
            if job.claims > self._config.fruitless_claims:
                raise JobFailure(
                    WriterCode.GENERIC,
                    f"given up: taken up {job.claims - 1} times without storing a row",
                )
            await self._store_all(job)
            total = job.processed
        except JobFailure as error:
            failure, total = error, None
        status, failure = _verdict(job, failure)
        await self._jobs.end(job, status, failure, total=total)
        told = (
            job.job_id,
            status,
            job.success_count,
            job.failed_count,
            failure.message if failure else "no error",
        )
        logger.info("job %s %s: %d stored, %d failed; %s", *told)

    async def _store_all(self, job: Job) -> None:
        tries = 0
        while True:
            before = job.processed
            try:
                return await self._read_once(job)
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
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret

    async def _read_once(self, job: Job) -> None:
        async with self._pool.connection() as connection:
            table = await read_table(connection, job.target)
            await self._read_into(connection, job, table)

    async def _read_into(self, connection: AsyncConnection[Any], job: Job, table: Table) -> None:
        turn = Turn()
        loader = Loader(job.target, table, turn.give)
        logger.info("job %s: reading %s from row %d", job.job_id, safe_url(job.url), job.processed)
        async with self._sources.open(job.url, job.headers) as source:
            await self._check_version(job, source)
            async with contextlib.aclosing(
                _one_ahead(self._batches(job, source, table, turn))
            ) as batches:
                async for batch in batches:
                    turn.take()
                    try:
                        await self._store(connection, job, loader, batch)
                    finally:
                        turn.give()

    async def _check_version(self, job: Job, source: OpenSource) -> None:
        if job.version is None:
            await self._jobs.note_source(job, source.version)
        elif change := source.version.differs_from(job.version):
            raise JobFailure(
                WriterCode.STORAGE, f"the source has changed between two reads: {change}"
            )

    async def _batches(
        self, job: Job, source: OpenSource, table: Table, turn: Turn
    ) -> AsyncGenerator[Batch]:
        path, done, index = split_path(job.json_path), job.processed, 0
        async with contextlib.aclosing(source.chunks()) as chunks:
            window = Window(chunks, limit_bytes=self._config.row_bytes)
            await enter_array(window, path)
            bounds = {"batch_bytes": self._config.batch_bytes, "row_bytes": self._config.row_bytes}
            reader = RowReader(window, **bounds, good_moment=turn.wait)
            async for rows in reader.batches():
                fresh = rows[max(done - index, 0) :]
                index += len(rows)
                if fresh:
                    yield make_batch(index - len(fresh), fresh, job.target, table)
            await leave_document(window, len(path))
        if index < done:
            message = (
                f"the source has changed between two reads: {done:,} rows of it are stored, "
                f"and now it has {index:,}"
            )
            raise JobFailure(WriterCode.STORAGE, message)

    async def _store(
        self, connection: AsyncConnection[Any], job: Job, loader: Loader, batch: Batch
    ) -> None:
        """Does not wait for the disk: a crash of the server takes rows and progress back together,
        and the commit that ends the job, which does wait, makes all before it durable."""
        async with connection.transaction():
            await connection.execute(query("begin_batch"), _BOUNDS)
            failed = await loader.load(connection, batch)
            await self._jobs.note_progress(connection, job, batch.size, failed)
        job.processed += batch.size
        job.failed_count += len(failed)
        job.success_count += batch.size - len(failed)


def _verdict(job: Job, failure: JobFailure | None) -> tuple[WriterStatus, JobFailure | None]:
    if failure is not None:
        return WriterStatus.FAILED, failure
    if not job.failed_count:
        return WriterStatus.COMPLETED, None
    if job.success_count:
        return WriterStatus.PARTIAL, None
    return WriterStatus.FAILED, JobFailure(
        WriterCode.SCHEMA, f"none of the {job.failed_count:,} rows could be stored"
    )


async def _one_ahead(source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The next one is made while the last one is used. What goes wrong with it is told only when it
    is asked for."""
    coming = asyncio.ensure_future(anext(source, None))
    try:
        while (one := await coming) is not None:
            coming = asyncio.ensure_future(anext(source, None))
            yield one
    finally:
        coming.cancel()
        await asyncio.wait([coming])
        if not coming.cancelled():
            coming.exception()
        await source.aclose()
