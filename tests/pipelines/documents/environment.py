"""A folder of files, an execution over it, and a clock that tests move instead of waiting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regente import Regente, Task
from regente.engine.pipeline import Registry
from regente.pipelines.documents.models import ExecutionStatus
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.read_models import DocumentExecution
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

ENDED = {ExecutionStatus.CONCLUIDO, ExecutionStatus.ERRO, ExecutionStatus.CANCELADO}
DUE = (
    b"WITH due AS (UPDATE regente.tasks SET run_at = regente.clock() "
    b"WHERE batch_id = %s AND status = 'queued' AND run_at > regente.clock() RETURNING id) "
    b"SELECT pg_notify('regente_queued', 'documents') FROM due LIMIT 1"
)
IN_VAIN = (
    b"INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, started_at, "
    b"lease_until) VALUES ('idle', 'nowhere', 1, '0', '{documents}', 1, "
    b"regente.clock() - interval '1 hour', regente.clock() + interval '1 hour')"
)
AGE = b"UPDATE regente.batches SET progress_at = progress_at - interval '6 minutes' WHERE id = %s"
AGE_TASKS = (
    b"UPDATE regente.tasks SET run_at = run_at - interval '6 minutes', heartbeat_at = "
    b"heartbeat_at - interval '6 minutes' "
    b"WHERE batch_id = %s AND status IN ('queued', 'running')"
)


@dataclass(frozen=True, slots=True)
class Environment:
    app: Regente
    operations: DocumentOperations
    folder: Path

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def submit(self, **options: Any) -> int:
        return await self.operations.submit_folder(self.folder, **options)

    async def run(
        self, execution_id: int | None = None, *, within_seconds: float = 60.0
    ) -> DocumentExecution:
        """Submits, unless it was, and runs to the end; waits between attempts are shortened."""
        found = execution_id or await self.submit()
        async with runner_in(self.app):
            return await self.ended(found, within_seconds=within_seconds)

    async def ended(
        self, execution_id: int, *, within_seconds: float = 60.0, skip_waits: bool = True
    ) -> DocumentExecution:
        async def over() -> DocumentExecution | None:
            if skip_waits:
                await self.make_retries_due(execution_id)
            execution = await self.operations.execution(execution_id)
            return execution if execution.status in ENDED else None

        found = await eventually_async(over, within_seconds=within_seconds)
        assert found is not None
        return found

    async def make_retries_due(self, execution_id: int) -> None:
        """Makes waiting retries due now."""
        await self.sql(DUE, execution_id)

    async def age(self, execution_id: int) -> None:
        """Moves the last progress six minutes into the past."""
        await self.sql(
            AGE_TASKS, execution_id
        )  # first: a review in between would take a new heartbeat for progress
        await self.sql(AGE, execution_id)

    async def serve_in_vain(self) -> None:
        """Adds a runner of documents that lives, and has never done anything."""
        await self.sql(IN_VAIN)

    async def sql(self, statement: bytes, *params: Any) -> list[tuple[Any, ...]]:
        async with self.app.database.connection() as connection:
            cursor = await connection.execute(statement, params)
            return await cursor.fetchall() if cursor.description is not None else []

    async def results(self, execution_id: int) -> dict[str, dict[str, Any]]:
        return {
            found.codigo: found.model_dump()
            for found in await self.operations.documents(execution_id, limit=2_000)
        }

    async def until(
        self,
        condition: Callable[[DocumentExecution], bool],
        execution_id: int,
        *,
        within_seconds: float = 60.0,
    ) -> DocumentExecution:
        async def met() -> DocumentExecution | None:
            execution = await self.operations.execution(execution_id)
            return execution if condition(execution) else None

        found = await eventually_async(met, within_seconds=within_seconds)
        assert found is not None
        return found


@contextlib.asynccontextmanager
async def watchdog(app: Regente, registry: Registry) -> AsyncIterator[None]:
    """A runner without documents: it only runs the watchdog."""

    async def nothing(task: Task) -> None:
        """A pipeline that returns at once."""

    if registry.get("nothing") is None:
        registry.pipeline("nothing")(nothing)
    running = asyncio.create_task(app.run(["nothing"]))
    try:
        yield
    finally:
        app.stop_running()
        await running


async def stalled(env: Environment, registry: Registry, execution_id: int) -> None:
    """Makes the execution stalled: six minutes without progress, and a run of the watchdog."""
    await env.age(execution_id)
    async with watchdog(env.app, registry):
        await env.until(lambda one: one.status is ExecutionStatus.TRAVADO, execution_id)
