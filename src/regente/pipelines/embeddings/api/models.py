"""Wire models of embeddings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from regente.api.models.basics import Strict, Word

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

    texts: list[Text] = Field(min_length=1, max_length=MAX_TEXTS)
    model: Model = None
    batch: Word | None = Field(
        None, description="A batch's name; a new name creates one. null: a batch for these texts."
    )


class AddedTexts(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "batch_id": 7,
                "batch": "catalogue",
                "model": "text-embedding-3-small",
                "texts": 2,
                "tasks": 1,
            }
        }
    )

    batch_id: int = Field(description="The batch, at /api/batches/{batch_id}.")
    batch: str
    model: str
    texts: int
    tasks: int


class ModelFigures(BaseModel):
    model: str
    dimensions: int
    vectors: int
    newest_at: datetime | None


class EmbeddingStats(BaseModel):
    storage: str = Field(
        description="How vectors are stored: real[] or pgvector.", examples=["pgvector"]
    )
    bytes: int
    vectors: int
    models: list[ModelFigures]
    tasks: dict[str, int] = Field(description="Tasks of the pipeline, by status.")


class SearchTexts(Strict):
    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "wooden furniture", "limit": 5}}
    )

    text: Text
    model: Model = None
    limit: int = Field(10, ge=1, le=500)


class FoundText(BaseModel):
    id: int
    similarity: float = Field(description="The cosine: 1 is the same direction.", examples=[0.83])
    text: str
    created_at: datetime


class FoundTexts(BaseModel):
    model: str
    items: list[FoundText]
