"""The storage phase: one writer job, sent once and polled to its end (5.3). We choose the job's id,
so a request sent twice is one job."""

from __future__ import annotations

import asyncio
import functools
import json
import time
import uuid
from dataclasses import replace
from typing import Any

from regente.contracts.writer import ProcessRequest, Source, WriterJob, WriterStatus
from regente.engine.crashpoints import crash_point
from regente.engine.errors import Fatal, TaskError, Throttled
from regente.engine.task import Task
from regente.fleet.clients import WriterClient, throttle_delay, with_retries
from regente.fleet.models import Writer
from regente.fleet.registry import Fleet
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.missions.failures import (
    ErrorCode,
    code_of_writer_call,
    code_of_writer_job,
)
from regente.pipelines.missions.phase import MissionPhase, MissionRun
from regente.pipelines.missions.queries import QUERIES, brief_transaction

NAMESPACE = uuid.UUID("6f0c3a52-6d0f-4f0a-9c52-0d7b8f6d2a11")
MAX_ITEM_CHARACTERS = 100_000


class StoragePhase(MissionPhase):
    def __init__(self, fleet: Fleet, task: Task[Any], run: MissionRun) -> None:
        super().__init__(fleet, task, run)
        self._reported = -1
        self._started_at = time.monotonic() - run.writer_seconds

    async def store(self) -> MissionRun:
        writer = await self._writer()
        client = self.fleet.writer_client(writer)
        job_id = self.run.writer_job_id or await self._begin(client, writer)
        job = await self._watch(client, job_id)
        if job.status is WriterStatus.FAILED:
            raise await self.storage_failed(
                code_of_writer_job(job),
                job.error or f"the job {job_id} failed",
                job_failed=True,
            )
        return await self._stored(job_id, job)

    async def _writer(self) -> Writer:
        """The writer that has the job already, or an active one; wait when there is none."""
        if self.run.writer_id is not None:
            return await self.fleet.writer(self.run.writer_id)
        while True:
            writer = await self.fleet.active_writer()
            if writer is not None:
                return writer
            self.task.context["waits_for"] = "a writer"
            await self.task.heartbeat()
            await asyncio.sleep(self.fleet.config.polling_session_seconds)

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
        assert row is not None, "the mission's row is there as long as its task"
        crash_point("writer.intended")
        job_id = await self._send(client, self._name(row["writer_no"]), asked_before=again)
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
        return str(uuid.uuid5(NAMESPACE, f"mission {self.task.id} writer {number}"))

    async def _send(self, client: WriterClient, name: str, *, asked_before: bool) -> str:
        if asked_before:
            try:
                return (
                    await with_retries(
                        self.task, lambda: client.job(name), self.fleet.config.outage_seconds
                    )
                ).job_id
            except CallFailed as error:
                if error.failure is not CallFailure.MISSING:
                    raise await self._not_answered(error) from error
        assert self.run.worker_data_url is not None, (
            "a mission in storage has the address of its data"
        )
        request = ProcessRequest(
            job_id=name,
            config=self.fleet.config.target,
            source=Source(url=self.run.worker_data_url, json_path=self.fleet.config.json_path),
        )
        self.task.check_lease()
        try:
            # May be repeated: the same id is the same job.
            return await with_retries(
                self.task,
                lambda: client.process(request),
                self.fleet.config.outage_seconds,
                rests=False,
            )
        except CallFailed as error:
            raise await self._not_answered(error) from error

    async def _not_answered(self, error: CallFailed) -> TaskError:
        code = code_of_writer_call(error)
        if error.failure is CallFailure.UNAUTHORIZED:
            return await self._unauthorized(code, error.message)
        if error.failure is CallFailure.THROTTLED:
            return Throttled(
                error.message, retry_after=throttle_delay(error.retry_after), code=code.value
            )
        return await self.storage_failed(code, error.message)

    async def _unauthorized(self, code: ErrorCode, message: str) -> Fatal:
        """The writer refuses our API key. A retry would send the same key: a person must correct
        it."""
        async with brief_transaction(self.task) as connection:
            await self.task.event(
                "writer_failed",
                connection=connection,
                writer_job_id=self.run.writer_job_id,
                error=message,
                error_code=code.value,
            )
            await QUERIES.execute(connection, "store_again", mission_id=self.task.id)
        return Fatal(message, code=code.value)

    # Poll the job.

    async def _watch(self, client: WriterClient, job_id: str) -> WriterJob:
        while True:
            job = await self._ask(client, job_id)
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

    async def _ask(self, client: WriterClient, job_id: str) -> WriterJob:
        while True:
            try:
                return await with_retries(
                    self.task,
                    functools.partial(client.job, job_id),
                    self.fleet.config.outage_seconds,
                )
            except CallFailed as error:
                if error.failure is not CallFailure.MISSING:
                    raise await self._not_answered(error) from error
            # The writer was set up anew and lost the job. Its name makes sending it again safe.
            number = (await MissionRun.of(self.fleet, self.task)).writer_no
            job_id = await self._send(client, self._name(number), asked_before=False)
            async with brief_transaction(self.task) as connection:
                await QUERIES.execute(
                    connection, "writer_started", mission_id=self.task.id, job_id=job_id
                )

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
