"""The settings of embeddings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.lanes import MAX_RATE, LaneLimits

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_API_MODEL = "text-embedding-3-small"


class EmbeddingSettings(BaseSettings):
    """Settings from `REGENTE_EMBEDDINGS_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_EMBEDDINGS_", frozen=True, extra="ignore")

    model: str | None = Field(
        None,
        max_length=200,
        description="hashing, wordllama, or a model of the API, "
        "`@DIMENSIONS` behind it to shorten it; "
        "none: what there is",
    )
    base_url: str | None = Field(
        None, description="an OpenAI-compatible API, up to and with /v1; none: OpenAI's"
    )
    api_key: str | None = Field(
        None, repr=False, description="of that API; servers of one's own may do without"
    )
    encoding: Literal["base64", "float"] = Field(
        "base64", description="the encoding of vectors in the API's answers"
    )
    texts_per_task: int = Field(
        100, ge=1, le=2048, description="so many texts go into one task, and into one call"
    )
    concurrency: int = Field(
        8, ge=1, le=1000, description="concurrent tasks, and calls, of one runner"
    )
    api_concurrency: int = Field(
        16, ge=1, le=10_000, description="calls of the API at once, in all runners together"
    )
    api_rate: float | None = Field(
        None, gt=0, le=MAX_RATE, description="and how many start in a second; default: no limit"
    )
    pgvector: Literal["auto", "off"] = Field(
        "auto", description="auto: use the extension where it is or can be created"
    )

    @property
    def lane_limits(self) -> LaneLimits:
        """Of the lane in which the API is called."""
        return LaneLimits(concurrency=self.api_concurrency, rate=self.api_rate)
