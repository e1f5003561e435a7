"""The pipeline `embeddings`: each content is embedded once, also by concurrent tasks.

It looks for missing contents, reserves them, embeds them in one call and stores them under the
task's fence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from regente.engine.client import Client
from regente.engine.database import TaskConnection, number_array, text_array
from regente.engine.errors import Fatal, InvalidInput, Throttled
from regente.engine.task import Task
from regente.pipelines.embeddings.contents import Content, distinct
from regente.pipelines.embeddings.embedders import Embedder, Embedders
from regente.pipelines.embeddings.models import EmbeddingArgs, EmbeddingResult
from regente.pipelines.embeddings.openai_api import Refused
from regente.pipelines.embeddings.queries import QUERIES
from regente.pipelines.embeddings.storage import Storage
from regente.pipelines.embeddings.vectors import BadVector, Vector, check_vectors, literal, norm_of

STORED = "STORED"
LOOKS = 20
POLL_SECONDS = 0.1
BUSY_SECONDS = 2.0

Found = tuple[Content, Vector]


class EmbeddingPipeline:
    def __init__(self, client: Client, embedders: Embedders, storage: Storage) -> None:
        self._database = client.database
        self._embedders = embedders
        self._storage = storage

    async def embed(self, task: Task[EmbeddingArgs]) -> EmbeddingResult:
        await self._storage.prepare()
        model, contents = task.args.model, distinct(task.args.model, task.args.texts)
        embedder = self._embedder(task)
        refused: dict[str, str] = {}
        while missing := await self._missing(task, contents, refused):
            if mine := await self._reserve(task, missing):
                refused |= await self._embed(task, embedder, mine, last=len(mine) == len(missing))
            else:
                await self._wait_for_others(task, missing)
        if refused:
            raise _refusal(contents, refused)
        stored = await QUERIES.fetch_all(
            self._database, "stored_by", model=model, hashes=_hashes(contents), task_id=task.id
        )
        return EmbeddingResult(
            texts=len(task.args.texts), distinct=len(contents), embedded=stored[0]["count"]
        )

    def _embedder(self, task: Task[EmbeddingArgs]) -> Embedder:
        try:
            return self._embedders.of(task.args.model, task.in_lane)
        except InvalidInput as error:
            raise Fatal(error.message, code=error.code) from error

    async def _missing(
        self, task: Task[EmbeddingArgs], contents: Sequence[Content], refused: dict[str, str]
    ) -> list[Content]:
        if await task.done(STORED):
            return []
        rows = await QUERIES.fetch_all(
            self._database, "missing", model=task.args.model, hashes=_hashes(contents)
        )
        return _chosen(contents, {row["hash"] for row in rows} - refused.keys())

    async def _reserve(
        self, task: Task[EmbeddingArgs], missing: Sequence[Content]
    ) -> list[Content]:
        """Reserve contents for this attempt; returns those that still have no vector."""
        async with task.transaction() as connection:
            ours = await QUERIES.fetch_all(
                connection,
                "reserve",
                hashes=_hashes(missing),
                task_id=task.id,
                attempt=task.attempt,
            )
            reserved = _chosen(missing, {row["hash"] for row in ours})
            rows = await QUERIES.fetch_all(
                connection, "missing", model=task.args.model, hashes=_hashes(reserved)
            )
            mine = _chosen(reserved, {row["hash"] for row in rows})
            if len(mine) < len(reserved):
                there = [content for content in reserved if content not in mine]
                await QUERIES.execute(
                    connection, "give_up_reservations", hashes=_hashes(there), task_id=task.id
                )
            return mine

    async def _embed(
        self, task: Task[EmbeddingArgs], embedder: Embedder, mine: Sequence[Content], *, last: bool
    ) -> dict[str, str]:
        """Embed and store the reserved contents; returns the refused ones by hash, with reasons."""
        task.check_lease()
        answers = await embedder.embed(mine)
        found = [
            (content, one)
            for content, one in zip(mine, answers, strict=True)
            if not isinstance(one, Refused)
        ]
        refused = {
            content.hash: one.message
            for content, one in zip(mine, answers, strict=True)
            if isinstance(one, Refused)
        }
        if found:
            dimensions = check_vectors([vector for _, vector in found], embedder.dimensions)
            # Only the last part records the step; earlier parts may be repeated differently.
            if last:
                await task.transact(STORED, self._store, task, found, dimensions)
            else:
                async with task.transaction() as connection:
                    await self._store(connection, task, found, dimensions)
        return refused

    async def _store(
        self,
        connection: TaskConnection,
        task: Task[EmbeddingArgs],
        found: Sequence[Found],
        dimensions: int,
    ) -> None:
        model = task.args.model
        await QUERIES.execute(connection, "know_model", model=model, dimensions=dimensions)
        known = (await QUERIES.fetch_all(connection, "model_dimensions", model=model))[0][
            "dimensions"
        ]
        if dimensions != known:
            message = f"{model} has had {known:,} dimensions so far, and now {dimensions:,}"
            raise BadVector(message, code="WRONG_DIMENSIONS")
        contents = [content for content, _ in found]
        await QUERIES.execute(
            connection,
            "store",
            model=model,
            task_id=task.id,
            hashes=_hashes(contents),
            texts=text_array([content.text for content in contents]),
            norms=number_array([norm_of(vector) for _, vector in found]),
            vectors=text_array([literal(vector) for _, vector in found]),
        )
        await QUERIES.execute(
            connection, "give_up_reservations", hashes=_hashes(contents), task_id=task.id
        )

    async def _wait_for_others(self, task: Task[EmbeddingArgs], missing: Sequence[Content]) -> None:
        """Wait until another task has stored one of the contents, or for a while."""
        for _ in range(LOOKS):
            await asyncio.sleep(POLL_SECONDS)
            await task.heartbeat()
            rows = await QUERIES.fetch_all(
                self._database, "missing", model=task.args.model, hashes=_hashes(missing)
            )
            if len(rows) < len(missing):
                return
        raise Throttled(
            "other tasks are embedding the same texts",
            retry_after=BUSY_SECONDS,
            code="CONTENT_BUSY",
        )


def _refusal(contents: Sequence[Content], refused: dict[str, str]) -> Fatal:
    """The error that names the refused texts; the others are stored."""
    shown = [
        {"text": content.text[:100], "error": refused[content.hash]}
        for content in contents
        if content.hash in refused
    ]
    return Fatal(
        f"the provider refused {len(refused)} of {len(contents)} texts; the others are "
        f"stored. {shown[0]['error']}",
        code="TEXT_REFUSED",
        details={"refused": shown},
    )


def _chosen(contents: Sequence[Content], hashes: set[str]) -> list[Content]:
    return [content for content in contents if content.hash in hashes]


def _hashes(contents: Sequence[Content]) -> str:
    return text_array([content.hash for content in contents])
