"""The storage phase: one writer job, sent once and polled to its end (5.3). We choose the job's id,
so a request sent twice is one job."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

from regente.contracts.writer import ProcessRequest, Source, WriterJob, WriterStatus
from regente.engine.crashpoints import crash_point
from regente.engine.errors import Throttled, Transient
from regente.engine.task import Task
from regente.fleet.clients import WriterClient, throttle_delay, with_retries
from regente.fleet.models import Writer
from regente.fleet.registry import Fleet
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure
from regente.pipelines.missions.failures import (
    ErrorCode,
    code_of_storage,
    code_of_storage_status,
    code_of_writer_call,
    code_of_writer_job,
)
from regente.pipelines.missions.phase import MissionPhase, MissionRun
from regente.pipelines.missions.queries import QUERIES, brief_transaction
from regente.pipelines.missions.writers import Writers

NAMESPACE = uuid.UUID("6f0c3a52-6d0f-4f0a-9c52-0d7b8f6d2a11")
MAX_ITEM_CHARACTERS = 100_000
FIRST_BYTE = {"range": "bytes=0-0"}
UNCERTAIN = TRANSIENT | {CallFailure.PROTOCOL}
"""Failures after which a writer that may have the job is asked again."""


class WriterLost(Exception):
    """The writer cannot be used: the mission goes on with another one, uncharged."""

    def __init__(self, error: CallFailed) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True)
class _Submission:
    """A job that is sent to one writer: `POST /process`, and before each repetition
    `GET /status`."""

    client: WriterClient
    name: str
    request: ProcessRequest
    ask: bool
    may_have_it: bool
    """Whether the writer may have got the job, and no answer says so."""
    failed: CallFailed | None = None
    """The error that the writer answered to the `POST`."""

    async def attempt(self) -> str:
        if self.ask and await self._is_there():
            return self.name
        if self.failed is not None:
            raise self.failed
        self.ask = True
        try:
            return await self.client.process(self.request)
        except CallFailed as error:
            self.may_have_it = error.may_have_acted
            # Without an answer the request may still be on its way: it is repeated here only.
            self.failed = None if error.status is None else error
            raise

    async def _is_there(self) -> bool:
        try:
            await self.client.job(self.name)
        except CallFailed as error:
            if error.failure is not CallFailure.MISSING:
                raise
            self.may_have_it = False
            return False
        return True


class StoragePhase(MissionPhase):
    def __init__(self, fleet: Fleet, task: Task[Any], run: MissionRun) -> None:
        super().__init__(fleet, task, run)
        self._writers = Writers(fleet, task)
        self._reported = -1
        self._was_limited = False
        self._started_at = time.monotonic() - run.writer_seconds

    async def store(self) -> MissionRun:
        while True:
            writer = await self._writer()
            try:
                return await self._store_with(writer)
            except WriterLost as lost:
                await self._leave(writer, lost.error)

    async def _store_with(self, writer: Writer) -> MissionRun:
        client = self.fleet.writer_client(writer)
        job_id = self.run.writer_job_id or await self._begin(client, writer)
        job = await self._watch(client, writer, job_id)
        if job.status is WriterStatus.FAILED:
            code, message = await self._code_of(job), job.error or f"the job {job_id} failed"
            await self._writers.job_failed(writer, code, message)
            raise await self.storage_failed(code, message, job_failed=True)
        await self._writers.answers(writer, stored=True)
        return await self._stored(job_id, job)

    async def _code_of(self, job: WriterJob) -> ErrorCode:
        """The error code of a failed job. If the job has none, the storage is asked for the
        results."""
        return code_of_writer_job(job) or await self._code_of_storage() or ErrorCode.WRITER

    async def _code_of_storage(self) -> ErrorCode | None:
        assert self.run.worker_data_url is not None
        try:
            await self.fleet.http.page(self.run.worker_data_url, headers=FIRST_BYTE)
        except CallFailed as error:  # no answer proves nothing: the writer may reach the storage
            return code_of_storage(error.body) or code_of_storage_status(error.status)
        return None

    async def _writer(self) -> Writer:
        """The writer that may have the job already, or one that is chosen now."""
        if self.run.writer_id is not None:
            return await self.fleet.writer(self.run.writer_id)
        return await self._writers.choose()

    async def _leave(self, writer: Writer, error: CallFailed) -> None:
        """Go on with another writer, which is asked for the job and sent it under the same name: if
        it shares its jobs with the first one, it is the same job."""
        async with brief_transaction(self.task) as connection:
            await self.task.event(
                "writer_failed",
                connection=connection,
                writer_job_id=self.run.writer_job_id,
                error=error.message,
                error_code=code_of_writer_call(error).value,
                writer_name=writer.name,
                blamed="throttled" if error.failure is CallFailure.THROTTLED else "writer",
            )
            await QUERIES.execute(connection, "leave_writer", mission_id=self.task.id)
        crash_point("writer.left")
        self.run = replace(self.run, writer_id=None, writer_job_id=None, writer_sent=True)

    # Send the job: record the intent before, and the job's id right after.

    async def _begin(self, client: WriterClient, writer: Writer) -> str:
        again = self.run.writer_sent
        async with brief_transaction(self.task) as connection:
            row = await QUERIES.fetch_one(
                connection,
                "about_to_store",
                mission_id=self.task.id,
                writer_id=writer.id,
                another=0 if again else 1,
            )
        if row is None:
            raise Transient(f"the writer {writer.name} was removed meanwhile")
        crash_point("writer.intended")
        name = self._name(row["writer_no"])
        may_have_it = again and self.run.writer_id is not None
        job_id = await self._send(client, writer, name, ask=again, may_have_it=may_have_it)
        crash_point("writer.accepted")
        async with brief_transaction(self.task) as connection:
            await QUERIES.execute(
                connection, "writer_started", mission_id=self.task.id, job_id=job_id
            )
            await self.task.event(
                "writer_started",
                connection=connection,
                writer_job_id=job_id,
                data_url=self.run.worker_data_url,
            )
        crash_point("writer.recorded")
        self.run = replace(self.run, writer_job_id=job_id)
        self._started_at = time.monotonic()
        return job_id

    def _name(self, number: int) -> str:
        return str(uuid.uuid5(NAMESPACE, self.task.idempotency_key(f"writer-{number}")))

    async def _send(
        self, client: WriterClient, writer: Writer, name: str, *, ask: bool, may_have_it: bool
    ) -> str:
        """Submit the job. A writer that certainly does not have it is left at once; one that may
        have it is asked as long as an outage may last, and longer while no other one works."""
        assert self.run.worker_data_url is not None, (
            "a mission in storage has the address of its data"
        )
        request = ProcessRequest(
            job_id=name,
            config=self.fleet.config.target,
            source=Source(url=self.run.worker_data_url, json_path=self.fleet.config.json_path),
        )
        submission = _Submission(client, name, request, ask, may_have_it)

        async def attempt() -> str:
            self.task.check_lease()
            try:
                return await submission.attempt()
            except CallFailed as error:
                await self._call_failed(writer, error, may_have_it=submission.may_have_it)
                raise

        seconds = self.fleet.config.outage_seconds
        while True:
            try:
                job_id = await with_retries(
                    self.task, attempt, seconds, rests=False, retried=UNCERTAIN
                )
            except CallFailed as error:
                if error.failure is CallFailure.THROTTLED and not submission.may_have_it:
                    await self._leave_limited(writer, error)
                await self._not_answered(writer, error)
            else:
                await self._writers.answers(writer)
                return job_id

    async def _leave_limited(self, writer: Writer, error: CallFailed) -> None:
        """Raise `WriterLost` when another writer can be asked instead; when that one is limited,
        too, the mission waits."""
        if not self._was_limited and await self._writers.another_works(writer.id):
            self._was_limited = True
            raise WriterLost(error)

    async def _call_failed(self, writer: Writer, error: CallFailed, *, may_have_it: bool) -> None:
        """Note the failure. Raises `WriterLost` when waiting for this writer is of no use."""
        if error.failure in (CallFailure.THROTTLED, CallFailure.INVALID):
            return
        await self._writers.call_failed(writer, error)
        if not may_have_it or error.failure is CallFailure.UNAUTHORIZED:
            raise WriterLost(error)

    async def _not_answered(self, writer: Writer, error: CallFailed) -> None:
        """The writer may have the job and does not say so: return to ask it again."""
        if error.failure is CallFailure.THROTTLED:
            raise Throttled(
                error.message,
                retry_after=throttle_delay(error.retry_after),
                code=code_of_writer_call(error).value,
            )
        if error.failure is CallFailure.INVALID:
            raise await self.storage_failed(code_of_writer_call(error), error.message)
        if await self._writers.another_works(writer.id):
            raise WriterLost(error)

    # Poll the job.

    async def _watch(self, client: WriterClient, writer: Writer, job_id: str) -> WriterJob:
        while True:
            job = await self._ask(client, writer, job_id)
            if job.status is not WriterStatus.PROCESSING:
                return job
            await self._report(job_id, job)
            left_seconds = self.fleet.config.timeout_job_seconds - (
                time.monotonic() - self._started_at
            )
            if left_seconds <= 0:
                limit = self.fleet.config.timeout_job_seconds
                raise await self.storage_failed(
                    ErrorCode.WRITER_TIMEOUT, f"the writer was still busy after {limit:g} s"
                )
            await asyncio.sleep(min(self.fleet.config.polling_job_seconds, left_seconds))

    async def _ask(self, client: WriterClient, writer: Writer, job_id: str) -> WriterJob:
        async def judged() -> WriterJob:
            try:
                return await client.job(job_id)
            except CallFailed as error:
                if error.failure is not CallFailure.MISSING:
                    await self._call_failed(writer, error, may_have_it=True)
                raise

        resent = False
        while True:
            try:
                return await with_retries(self.task, judged, self.fleet.config.outage_seconds)
            except CallFailed as error:
                if error.failure is not CallFailure.MISSING:
                    await self._status_unknown(writer, error)
                    continue
                if resent:
                    raise await self._forgotten(writer, error) from error
            # The writer was reinstalled and lost the job. Its name makes sending it again safe.
            resent = True
            number = (await MissionRun.of(self.fleet, self.task)).writer_no
            job_id = await self._send(
                client, writer, self._name(number), ask=False, may_have_it=False
            )
            async with brief_transaction(self.task) as connection:
                await QUERIES.execute(
                    connection, "writer_started", mission_id=self.task.id, job_id=job_id
                )

    async def _status_unknown(self, writer: Writer, error: CallFailed) -> None:
        """The writer has the job and does not report its status. A writer that is healthy otherwise
        gets a new job."""
        answered = error.status is not None or error.failure is CallFailure.PROTOCOL
        if answered and error.failure in UNCERTAIN and await self._writers.is_well(writer.id):
            await self._writers.answers(writer)
            raise await self.storage_failed(code_of_writer_call(error), error.message)
        await self._not_answered(writer, error)
        if error.failure not in TRANSIENT:  # its repetition had no pause yet
            await self.task.heartbeat()
            await asyncio.sleep(self.fleet.config.polling_job_seconds)

    async def _forgotten(self, writer: Writer, error: CallFailed) -> Exception:
        """The writer accepted the job twice and does not know it."""
        await self._writers.call_failed(writer, error)
        if await self._writers.another_works(writer.id):
            return WriterLost(error)
        return await self.storage_failed(code_of_writer_call(error), error.message)

    async def _report(self, job_id: str, job: WriterJob) -> None:
        done = job.progress.processed
        if done in (self._reported, 0):
            await self.task.heartbeat()
            return
        self._reported = done
        await self.task.progress(
            done / job.progress.total if job.progress.total else None, "armazenamento"
        )
        async with brief_transaction(self.task) as connection:
            await self.task.event(
                "writer_progress",
                connection=connection,
                writer_job_id=job_id,
                processed=done,
                total=job.progress.total,
            )

    # Record how the job ended.

    async def _stored(self, job_id: str, job: WriterJob) -> MissionRun:
        duration_ms = round((time.monotonic() - self._started_at) * 1000)
        counts = {
            "success_count": job.progress.success_count,
            "failed_count": job.progress.failed_count,
        }
        async with brief_transaction(self.task) as connection:
            await QUERIES.execute(connection, "stored", mission_id=self.task.id, **counts)
            if job.failed_items:
                await QUERIES.execute(
                    connection,
                    "keep_failed_items",
                    mission_id=self.task.id,
                    indexes=[item.index for item in job.failed_items],
                    data=[_short_json(item.data) for item in job.failed_items],
                    errors=[item.error.replace("\x00", "")[:2000] for item in job.failed_items],
                )
            await self.task.event(
                "writer_completed",
                connection=connection,
                writer_job_id=job_id,
                duration_ms=duration_ms,
                status=job.status.value,
                failed_items=len(job.failed_items),
                **counts,
            )
        crash_point("writer.stored")
        return await MissionRun.of(self.fleet, self.task)


def _short_json(data: Any) -> str:
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:  # a number that JSON does not have
        text = json.dumps({"unreadable": repr(data)[:MAX_ITEM_CHARACTERS]})
    return (
        text
        if len(text) <= MAX_ITEM_CHARACTERS
        else json.dumps({"shortened": text[:MAX_ITEM_CHARACTERS]})
    )
