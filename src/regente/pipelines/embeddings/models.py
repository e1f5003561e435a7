"""The arguments and the result of an embeddings task."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.embeddings.contents import MAX_TEXT_CHARACTERS

MAX_TEXTS_PER_TASK = 2048

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)]


class EmbeddingArgs(BaseModel):
    """The texts of one task, embedded in one call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1, max_length=200)
    texts: list[Text] = Field(min_length=1, max_length=MAX_TEXTS_PER_TASK)


class EmbeddingResult(BaseModel):
    texts: int
    distinct: int
    embedded: int
    """The number of vectors that this task stored; the others existed."""
