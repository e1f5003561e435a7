"""The settings of quotes: the providers' addresses and keys, and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.intents import OnUnknown
from regente.engine.lanes import MAX_RATE, LaneLimits

STANDIN = "/quotes"
"""The path of the sandbox's stand-ins."""


def is_standin(url: str, sandbox_url: str) -> bool:
    """Whether the URL is one of the sandbox's stand-ins, which honour idempotency keys."""
    return url.startswith(f"{sandbox_url.rstrip('/')}{STANDIN}/")


class QuotesSettings(BaseSettings):
    """Settings from `REGENTE_QUOTES_<NAME>`. Without any key the sandbox's stand-ins are used."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_QUOTES_", frozen=True, extra="ignore")

    anthropic_key: SecretStr | None = Field(
        None, description="key of the Anthropic API, which analyses the description"
    )
    anthropic_url: str | None = Field(None, description="default: https://api.anthropic.com")
    anthropic_model: str = Field("claude-haiku-4-5", description="the model that analyses")
    anthropic_parameters: dict[str, Any] = Field(
        {},
        description="parameters of the model as JSON, beside ours or in place of them; null leaves "
        'one of ours out: {"temperature": 0}, {"max_tokens": 8192, "tool_choice": null}',
    )
    serpapi_key: SecretStr | None = Field(
        None, description="key of SerpAPI, which searches Google Shopping"
    )
    serpapi_url: str | None = Field(None, description="default: https://serpapi.com")
    fipe_token: SecretStr | None = Field(
        None, description="token of the FIPE API, for more calls a day; it works without"
    )
    fipe_url: str | None = Field(
        None, description="ends in /v1 or /v2; default: https://fipe.parallelum.com.br/api/v2"
    )
    country: str = Field(
        "br", min_length=2, max_length=2, description="where is searched (Google's gl)"
    )
    language: str = Field("pt-br", description="in which language (Google's hl)")
    currency: str = Field(
        "BRL", min_length=3, max_length=3, description="prices in another one do not count"
    )
    max_products: int = Field(
        8, ge=1, le=100, description="how many of the products found are tested"
    )
    products_at_once: int = Field(
        2, ge=1, le=20, description="how many of one quote's products are tested at once"
    )
    shop_pages: bool = Field(
        True,
        description="look up the shop's own page of each product that is tested, if the search "
        "does not tell it; each look-up is a paid search",
    )
    accept_listing: bool = Field(
        True, description="take the price in the search's answer where the page shows none"
    )
    screenshots: bool = Field(
        False,
        description="keep an image of each page that a price was read from, as Chromium shows its "
        "text; each takes seconds of a processor",
    )
    chromium: str | None = Field(
        None, description="the Chromium that takes them; default: one that is installed"
    )
    fipe_cache_hours: float = Field(
        24.0,
        ge=0,
        description="how old the table's lists of brands, models and years may be; 0: never kept",
    )
    http_timeout: float = Field(
        60.0, gt=0, description="seconds that a provider or a page may take to answer"
    )
    provider_concurrency: int = Field(
        20,
        ge=1,
        le=10_000,
        description="calls of each provider (analysis, search, FIPE) at once, in all runners",
    )
    provider_rate: float | None = Field(
        None,
        gt=0,
        le=MAX_RATE,
        description="and how many of each start in a second; default: no limit",
    )
    shop_concurrency: int = Field(
        4, ge=1, le=1000, description="pages of one shop fetched at once, in all runners"
    )
    shop_rate: float | None = Field(
        None, gt=0, le=MAX_RATE, description="and how many in a second; default: no limit"
    )
    concurrency: int = Field(20, ge=1, le=10_000, description="quotes at once in one runner")
    retry_seconds: float = Field(
        5.0, ge=0, description="the first wait after a failure; it doubles"
    )
    analysis_on_unknown: OnUnknown | None = Field(
        None,
        description="an analysis that may have been paid for, and whose answer is not known: retry "
        "it, or hold the quote until a person decides; default: hold, retry with the sandbox",
    )
    search_on_unknown: OnUnknown | None = Field(
        None, description="the same for a search; default: hold, retry with the sandbox"
    )
    timezone: str = Field("UTC", description="in which cleanup_old_processing runs at 04:00")

    @field_validator("anthropic_parameters")
    @classmethod
    def _ours_stay(cls, given: dict[str, Any]) -> dict[str, Any]:
        if fixed := sorted({"model", "messages", "system", "tools"} & given.keys()):
            raise ValueError(f"{', '.join(fixed)} cannot be changed")
        return given

    @property
    def provider_limits(self) -> LaneLimits:
        """Of the lane of each provider."""
        return LaneLimits(concurrency=self.provider_concurrency, rate=self.provider_rate)

    @property
    def shop_limits(self) -> LaneLimits:
        """Of the lane of each shop."""
        return LaneLimits(concurrency=self.shop_concurrency, rate=self.shop_rate)

    @property
    def is_real(self) -> bool:
        """Whether a key is set: then no stand-in is used."""
        return any(
            key is not None for key in (self.anthropic_key, self.serpapi_key, self.fipe_token)
        )

    def base_urls(self, sandbox_url: str) -> tuple[str, str, str]:
        """The base URLs of the analysis, the search and the FIPE table."""
        sandbox = f"{sandbox_url.rstrip('/')}{STANDIN}"
        defaults = (
            (
                "https://api.anthropic.com",
                "https://serpapi.com",
                "https://fipe.parallelum.com.br/api/v2",
            )
            if self.is_real
            else (f"{sandbox}/anthropic", f"{sandbox}/serpapi", f"{sandbox}/fipe/api/v2")
        )
        given = (self.anthropic_url, self.serpapi_url, self.fipe_url)
        first, second, third = (
            (url or default).rstrip("/") for url, default in zip(given, defaults, strict=True)
        )
        return first, second, third

    def mask(self) -> Callable[[str], str]:
        """Takes the keys out of a text that others may read."""
        keys = [
            key.get_secret_value()
            for key in (self.anthropic_key, self.serpapi_key, self.fipe_token)
            if key is not None
        ]
        secrets = [written for key in keys if key for written in (key, quote_plus(key))]

        def masked(text: str) -> str:
            for secret in secrets:
                text = text.replace(secret, "[secret]")
            return text

        return masked
