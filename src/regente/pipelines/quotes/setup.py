"""Registers the quotes' pipelines in a process that runs them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from regente.engine.client import Client
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.http_client.client import HttpClient
from regente.pipelines.builtin import Host, Registered
from regente.pipelines.quotes.anthropic import AnthropicAnalyst
from regente.pipelines.quotes.fipe import FipeTable
from regente.pipelines.quotes.maintenance import (
    CLEAN_UP,
    QUOTES,
    RECOVER,
    STUCK_SECONDS,
    QuoteMaintenance,
)
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.pipeline import QuotePipeline
from regente.pipelines.quotes.product_pages import HttpProductPages
from regente.pipelines.quotes.providers import Providers
from regente.pipelines.quotes.screenshots import Screenshots
from regente.pipelines.quotes.serpapi import SerpApiShopping
from regente.pipelines.quotes.settings import QuotesSettings, is_standin

MAX_TRIES = 10
LONGEST_WAIT_SECONDS = 600.0
HTTP_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2")


@dataclass(frozen=True, slots=True)
class QuotePipelines:
    """The pipelines' own HTTP clients, which hide the keys in errors and logs."""

    http: HttpClient
    product_pages: HttpProductPages

    async def close(self) -> None:
        await self.http.close()
        await self.product_pages.close()


def register(host: Host) -> Registered:
    quotes = register_quotes(host.registry, host.client, QuotesSettings(), host.sandbox_url)
    return Registered(quotes.close)


def register_quotes(
    registry: Registry, client: Client, settings: QuotesSettings, sandbox_url: str
) -> QuotePipelines:
    http = HttpClient(settings.http_timeout, settings.mask())
    _keep_out_of_logs(settings)
    _, search_url, _ = settings.base_urls(sandbox_url)
    product_pages = HttpProductPages(
        settings.http_timeout,
        settings.mask(),
        currency=settings.currency,
        home=search_url,
        accept_listing=settings.accept_listing,
        screenshots=Screenshots.of(wanted=settings.screenshots, chromium=settings.chromium),
        limits=settings.shop_limits,
    )
    quotes = QuotePipeline(providers(http, product_pages, settings, sandbox_url), settings)
    retry = Retry(
        max_attempts=MAX_TRIES, first=settings.retry_seconds, maximum=LONGEST_WAIT_SECONDS
    )
    registry.pipeline(
        QUOTES,
        args=QuoteArgs,
        retry=retry,
        stall_after=STUCK_SECONDS,
        concurrency=settings.concurrency,
    )(quotes.quote)
    maintenance = QuoteMaintenance(client)
    registry.pipeline(RECOVER)(maintenance.recover_stuck_quotes)
    registry.pipeline(CLEAN_UP)(maintenance.cleanup_old_processing)
    return QuotePipelines(http, product_pages)


def providers(
    http: HttpClient, product_pages: HttpProductPages, settings: QuotesSettings, sandbox_url: str
) -> Providers:
    analysis_url, search_url, fipe_url = settings.base_urls(sandbox_url)
    return Providers(
        analyst=AnthropicAnalyst(
            http,
            analysis_url,
            settings.anthropic_key,
            settings.anthropic_model,
            parameters=settings.anthropic_parameters,
            honours_keys=is_standin(analysis_url, sandbox_url),
            limits=settings.provider_limits,
        ),
        shopping=SerpApiShopping(
            http,
            search_url,
            settings.serpapi_key,
            country=settings.country,
            language=settings.language,
            currency=settings.currency,
            honours_keys=is_standin(search_url, sandbox_url),
            limits=settings.provider_limits,
        ),
        vehicles=FipeTable(
            http,
            fipe_url,
            settings.fipe_token,
            lists_seconds=3600 * settings.fipe_cache_hours,
            limits=settings.provider_limits,
        ),
        product_pages=product_pages,
    )


class _RedactKeys(logging.Filter):
    def __init__(self, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._mask(record.getMessage()), ()
        return True


def _keep_out_of_logs(settings: QuotesSettings) -> None:
    """Raise the HTTP client's log level: it logs URLs, and one provider's key is in the URL."""
    if settings.is_real:
        for name in HTTP_LOGGERS:
            logging.getLogger(name).addFilter(_RedactKeys(settings.mask()))
