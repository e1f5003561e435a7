"""The settings of rounds: the league's site, pauses, retries."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regente.engine.lanes import MAX_RATE, LaneLimits
from regente.engine.retry import Retry


class RoundSettings(BaseSettings):
    """Settings from `REGENTE_ROUNDS_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="REGENTE_ROUNDS_", frozen=True, extra="ignore")

    sites: str = Field(
        "",
        description="further sites of leagues: FILE.toml or module:object, separated by commas",
    )
    site_url: str | None = Field(
        None,
        description="the site of leagues that no other site has; none: the one in "
        "`regente sandbox`",
    )
    concurrency: int = Field(
        4, ge=1, le=1000, description="matches that one runner scrapes at once"
    )
    site_concurrency: int = Field(
        4, ge=1, le=1000, description="pages of one site fetched at once, in all runners together"
    )
    pause_seconds: float = Field(
        0.1, ge=0, le=60, description="between two requests to one site, of all runners"
    )
    page_seconds: float = Field(
        30.0, gt=0, le=600, description="how long a page may take, to its last byte"
    )
    retries: int = Field(
        3, ge=0, le=100, description="after a timeout, a 5xx or an incomplete page"
    )
    retry_first_seconds: float = Field(
        2.0, ge=0, le=3600, description="the first wait; each further one is twice as long"
    )
    retry_most_seconds: float = Field(60.0, ge=0, le=86_400, description="no wait is longer")
    recheck_seconds: float = Field(
        900.0, gt=0, le=7 * 86_400, description="how soon an unfinished match is checked again"
    )
    match_seconds: float = Field(
        7200.0, ge=0, description="how long after its kick-off a match is over, most likely"
    )
    patience_seconds: float = Field(
        48 * 3600.0, gt=0, description="after its kick-off an unfinished match is given up"
    )
    user_agent: str = Field(
        "Regente", min_length=1, max_length=200, description="how we introduce ourselves"
    )

    @property
    def lane_limits(self) -> LaneLimits:
        """Of the lane of a site."""
        rate = min(MAX_RATE, 1 / self.pause_seconds) if self.pause_seconds else None
        return LaneLimits(concurrency=self.site_concurrency, rate=rate, burst=1)

    @property
    def retry(self) -> Retry:
        return Retry(
            max_attempts=self.retries + 1,
            first=self.retry_first_seconds,
            factor=2.0,
            maximum=self.retry_most_seconds,
            jitter=True,
        )
