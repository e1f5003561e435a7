"""Wire models of embeddings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from regente.api.models.basics import Strict, Word
from regente.pipelines.embeddings.read_models import FoundText

MAX_TEXTS = 10_000
MAX_CHARACTERS = 32_000

Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Model = Annotated[
    str | None,
    Field(
        max_length=200,
        description="hashing, wordllama, or a model of the API; null: "
        "what is set, or what there is.",
    ),
]


class AddTexts(Strict):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"texts": ["a chair of oak", "a table of pine"], "batch": "catalogue"}
        }
    )

    texts: list[Text] = Field(min_length=1, max_length=MAX_TEXTS, fail_fast=True)
    model: Model = None
    batch: Word | None = Field(
        None, description="A batch's name; a new name creates one. null: a batch for these texts."
    )


class SearchTexts(Strict):
    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "wooden furniture", "limit": 5}}
    )

    text: Text
    model: Model = None
    limit: int = Field(10, ge=1, le=500)


class FoundTexts(BaseModel):
    model: str
    items: list[FoundText]
