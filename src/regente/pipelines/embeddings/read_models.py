"""What people see of embeddings."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


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

    batch_id: int = Field(description="Follow it at /api/batches/{batch_id}.")
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


class Embedding(BaseModel):
    id: int
    model: str
    text: str
    created_at: datetime
    task_id: int


class FoundText(BaseModel):
    id: int
    similarity: float = Field(description="The cosine: 1 is the same direction.", examples=[0.83])
    text: str
    created_at: datetime
