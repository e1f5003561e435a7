"""A client of OpenAI-compatible `/embeddings` APIs: OpenAI, an own server, or the stand-in.

A call with a refused text is halved until that text is found, so that the others are embedded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from regente.http_client.client import CallFailed, CallFailure, HttpClient
from regente.http_client.lanes import InLane, lane_of
from regente.http_client.task_errors import task_error
from regente.pipelines.embeddings.contents import Content, joint_key
from regente.pipelines.embeddings.settings import OPENAI_URL, EmbeddingSettings
from regente.pipelines.embeddings.vectors import BadVector, Vector, vector_from_base64, vector_of

KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
MAX_REFUSED_CALLS = 24
"""After more refusals for one task the cause is not a text."""


class Refused(BaseModel):
    """The API refuses to embed this text."""

    message: str


class _Question(BaseModel):
    model: str
    input: list[str]
    encoding_format: str
    dimensions: int | None = None


class _Item(BaseModel):
    index: int
    embedding: Annotated[list[float], Field(fail_fast=True)] | str


class Answer(BaseModel):
    data: list[_Item] = Field(fail_fast=True)


class OpenAiEmbedder:
    def __init__(
        self,
        http: HttpClient,
        settings: EmbeddingSettings,
        model: str,
        dimensions: int | None,
        *,
        in_lane: InLane,
    ) -> None:
        self._in_lane = in_lane
        self.dimensions = dimensions or KNOWN_DIMENSIONS.get(model)
        self._http = http
        self._settings = settings
        self._model = model
        self._asked_dimensions = dimensions
        self._url = f"{(settings.base_url or OPENAI_URL).rstrip('/')}/embeddings"
        self._lane = lane_of("embeddings", self._url, settings.lane_limits)

    async def embed(self, contents: Sequence[Content]) -> list[Vector | Refused]:
        return await self._embed(list(contents), [MAX_REFUSED_CALLS])

    async def _embed(
        self, contents: list[Content], refusals_left: list[int]
    ) -> list[Vector | Refused]:
        async with self._in_lane(self._lane):
            try:
                return [*await self._call(contents)]
            except CallFailed as failed:
                refusals_left[0] -= 1
                if failed.failure is not CallFailure.INVALID or refusals_left[0] <= 0:
                    raise task_error(failed) from failed
                if len(contents) == 1:
                    return [Refused(message=failed.message)]
        middle = len(contents) // 2
        return [
            *await self._embed(contents[:middle], refusals_left),
            *await self._embed(contents[middle:], refusals_left),
        ]

    async def _call(self, contents: list[Content]) -> list[Vector]:
        question = _Question(
            model=self._model,
            input=[content.text for content in contents],
            encoding_format=self._settings.encoding,
            dimensions=self._asked_dimensions,
        )
        headers = {"Idempotency-Key": joint_key(contents)}
        if self._settings.api_key:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        try:
            answer = await self._http.call(
                "POST", self._url, body=question, headers=headers, answer=Answer
            )
        except CallFailed as failed:
            raise self._without_key(failed) from None
        return _in_order(answer.data, len(contents))

    def _without_key(self, failed: CallFailed) -> CallFailed:
        """The error without the key, which an API may repeat."""
        message = (
            failed.message.replace(self._settings.api_key, "***")
            if self._settings.api_key
            else failed.message
        )
        return CallFailed(
            failed.failure, message, status=failed.status, retry_after=failed.retry_after
        )


def _in_order(items: list[_Item], count: int) -> list[Vector]:
    """The vectors in the order of their index."""
    found = {item.index: item for item in items}
    if len(items) != count or found.keys() != set(range(count)):
        raise BadVector(
            f"the provider answered {len(items)} vectors for {count} texts, or not one for each",
            code="WRONG_COUNT",
        )
    values = [found[index].embedding for index in range(count)]
    return [vector_from_base64(one) if isinstance(one, str) else vector_of(one) for one in values]
