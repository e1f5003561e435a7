"""The settings of documents."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.lanes import MAX_RATE, LaneLimits

OPENROUTER_URL = "https://openrouter.ai/api/v1"
MEGABYTE = 1024 * 1024


class DocumentSettings(BaseSettings):
    """Settings from `REGENTE_DOCUMENTS_<NAME>`. Without a key and an address: the stand-in."""

    model_config = SettingsConfigDict(
        env_prefix="REGENTE_DOCUMENTS_", frozen=True, extra="ignore", populate_by_name=True
    )

    api_url: str | None = Field(
        None, description="a chat API in the style of OpenAI; with a key: OpenRouter"
    )
    api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("REGENTE_DOCUMENTS_API_KEY", "OPENROUTER_API_KEY", "api_key"),
    )
    model: str = Field("openai/gpt-4o-mini", description="for projects that name none")
    concurrency: int = Field(8, ge=1, le=1000, description="documents at once in one runner")
    api_concurrency: int = Field(
        16, ge=1, le=10_000, description="calls of the chat API at once, in all runners together"
    )
    api_rate: float | None = Field(
        None, gt=0, le=MAX_RATE, description="and how many start in a second; default: no limit"
    )
    max_file_mb: int = Field(20, ge=1, le=200, description="a larger file is skipped")
    max_characters: int = Field(
        24_000, ge=100, le=1_000_000, description="how much of a document is read and sent"
    )
    extract_seconds: float = Field(60.0, gt=0, le=120, description="how long a PDF's text may take")
    extract_memory_mb: int = Field(
        1024, ge=256, description="how much memory a PDF's text may take"
    )
    answer_seconds: float = Field(60.0, gt=0, le=120, description="how long the API may be silent")
    upload_mb: int = Field(256, ge=1, le=4096, description="maximum size of an upload")
    root: Path | None = Field(
        None, description="folders below it may be named over HTTP; none: no folder may"
    )

    @property
    def lane_limits(self) -> LaneLimits:
        """Of the lane in which the chat API is called."""
        return LaneLimits(concurrency=self.api_concurrency, rate=self.api_rate)

    @property
    def max_file_bytes(self) -> int:
        return self.max_file_mb * MEGABYTE

    @property
    def upload_bytes(self) -> int:
        return self.upload_mb * MEGABYTE

    def chat_url(self, sandbox_url: str) -> str:
        if self.api_url is not None:
            return self.api_url.rstrip("/")
        return (
            OPENROUTER_URL
            if self.api_key is not None
            else f"{sandbox_url.rstrip('/')}/openrouter/api/v1"
        )

    def mask(self, text: str) -> str:
        """The text with the API key masked."""
        secret = self.api_key.get_secret_value() if self.api_key is not None else ""
        return text.replace(secret, "***") if secret else text
