"""The health of writers: which one a mission's job goes to, and what a failure costs the writer.

A writer that fails rests, twice as long after each failure in a row, and gets one job to try when
its rest is over. One that refuses our API key is deactivated at once. A mission waits, without a
charge, while no writer is healthy.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from regente.engine.errors import NotFound
from regente.engine.log import logger
from regente.engine.task import Task
from regente.fleet.health import probe
from regente.fleet.models import Writer
from regente.fleet.registry import Fleet
from regente.fleet.secrets import SecretsUnreadable
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.missions.failures import ErrorCode, code_of_writer_call
from regente.pipelines.missions.queries import QUERIES, brief_transaction

MIN_PAUSE_SECONDS = 0.05
NOT_THE_WRITERS = (ErrorCode.WRITER_SCHEMA, ErrorCode.STORAGE, ErrorCode.STORAGE_CREDENTIALS)
"""Codes of failed jobs that say nothing against the writer."""


class Writers:
    """The writers, as one mission's task sees them."""

    def __init__(self, fleet: Fleet, task: Task[Any]) -> None:
        self._fleet = fleet
        self._task = task
        self._tried: str | None = None
        """The resting writer that this mission is to try."""
        self._other: Writer | None = None

    async def choose(self) -> Writer:
        """A healthy writer, or one whose rest is over and that answers; waits for one."""
        while True:
            writer, self._other = self._other, None
            writer = writer or await self._try_one() or await self._healthy()
            if writer is not None:
                return writer
            self._task.context["waits_for"] = "a writer"
            await self._task.heartbeat()
            await asyncio.sleep(await self._pause_seconds())

    async def another_works(self, writer_id: str) -> bool:
        """Whether another writer than this one answers; then it is chosen next."""
        other = await self._try_one(not_id=writer_id) or await self._healthy(not_id=writer_id)
        if other is not None and (self._tried == other.id or await self._answers(other.id)):
            self._other = other
        return self._other is not None

    async def is_well(self, writer_id: str) -> bool:
        ok, _ = await probe(self._fleet, "writer", writer_id)
        return ok

    async def call_failed(self, writer: Writer, error: CallFailed) -> None:
        if error.failure is CallFailure.UNAUTHORIZED:
            await self._deactivate(writer, error.message)
        elif error.failure is not CallFailure.THROTTLED:
            await self._rest(writer.id, code_of_writer_call(error), error.message)

    async def job_failed(self, writer: Writer, code: ErrorCode, message: str) -> None:
        if code not in NOT_THE_WRITERS:
            await self._rest(writer.id, code, message, failed_job=1)

    async def answers(self, writer: Writer, *, stored: bool = False) -> None:
        """Record that the writer accepted or stored a job."""
        async with brief_transaction(self._task) as connection:
            row = await QUERIES.fetch_one(
                connection, "writer_answers", writer_id=writer.id, stored=stored
            )
            if row is not None and row["healthy"]:
                await self._log(connection, "writer_recovered", writer.id, row["name"])

    async def _healthy(self, not_id: str | None = None) -> Writer | None:
        found = await QUERIES.fetch_all(
            self._fleet.database, "healthy_writer", mission_id=self._task.id, not_id=not_id
        )
        return await self._loaded(found[0]["id"]) if found else None

    async def _try_one(self, not_id: str | None = None) -> Writer | None:
        async with brief_transaction(self._task) as connection:
            row = await QUERIES.fetch_one(
                connection, "try_writer", mission_id=self._task.id, not_id=not_id, **self._backoff
            )
        if row is None:
            return None
        self._tried = row["id"]
        return await self._loaded(row["id"]) if await self._answers(row["id"]) else None

    async def _answers(self, writer_id: str) -> bool:
        ok, message = await probe(self._fleet, "writer", writer_id)
        if not ok:
            await self._rest(writer_id, ErrorCode.WRITER, message)
        return ok

    async def _loaded(self, writer_id: str) -> Writer | None:
        try:
            return await self._fleet.writer(writer_id)
        except NotFound:
            return None  # it was removed meanwhile
        except SecretsUnreadable as error:
            await self._rest(writer_id, ErrorCode.WRITER, error.message)
            return None

    async def _rest(
        self, writer_id: str, code: ErrorCode, message: str, *, failed_job: int = 0
    ) -> None:
        async with brief_transaction(self._task) as connection:
            row = await QUERIES.fetch_one(
                connection,
                "rest_writer",
                writer_id=writer_id,
                code=code.value,
                message=message,
                failed_job=failed_job,
                tried=self._tried == writer_id,
                **self._backoff,
            )
            if row is not None and row["failures"] == 1:
                logger.warning("a writer fails", extra={"writer": row["name"], "reason": message})
                await self._log(connection, "writer_rests", writer_id, row["name"], reason=message)
        if self._tried == writer_id:
            self._tried = None

    async def _deactivate(self, writer: Writer, message: str) -> None:
        async with brief_transaction(self._task) as connection:
            row = await QUERIES.fetch_one(
                connection,
                "deactivate_writer",
                writer_id=writer.id,
                code=ErrorCode.WRITER_REFUSED.value,
                message=message,
            )
            if row is not None:
                await self._log(
                    connection, "writer_deactivated", writer.id, row["name"], reason=message
                )

    async def _log(
        self, connection: Any, event: str, writer_id: str, name: str, **details: Any
    ) -> None:
        """An event of the fleet, not of this mission."""
        document = json.dumps({"id": writer_id, "name": name, "by": "regente", **details})
        await QUERIES.execute(connection, "log_action", event=event, details=document)

    @property
    def _backoff(self) -> dict[str, float]:
        config = self._fleet.config
        return {
            "backoff_seconds": config.error_backoff_seconds,
            "limit_seconds": config.error_backoff_limit_seconds,
        }

    async def _pause_seconds(self) -> float:
        """Seconds until the next writer may be tried, or one may have been added."""
        found = await QUERIES.fetch_all(self._fleet.database, "next_try_of_a_writer")
        longest = self._fleet.config.polling_session_seconds
        seconds = found[0]["seconds"]
        return longest if seconds is None else max(MIN_PAUSE_SECONDS, min(longest, seconds))
