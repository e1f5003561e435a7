"""Fetches pages of the league's site, with pauses; attaches each as a snapshot to its attempt."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from urllib.parse import urlsplit

from regente.engine.errors import Fatal, Transient
from regente.engine.task import Task
from regente.http_client.client import CallFailed, HttpClient, WebPage
from regente.http_client.task_errors import task_error
from regente.pipelines.rounds.settings import RoundSettings

logger = logging.getLogger("regente.rounds")

SNAPSHOT = "page.html"


class RequestPacer:
    """Keeps a pause between the requests of this process."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._next_at = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + self._pause_seconds
        if at > now:
            await asyncio.sleep(at - now)


class LeagueSite:
    def __init__(self, http: HttpClient, settings: RoundSettings, site_url: str) -> None:
        self._http = http
        self._url = site_url.rstrip("/")
        self._origin = urlsplit(self._url)[:2]
        self._page_seconds = settings.page_seconds
        self._headers = {"user-agent": settings.user_agent, "accept": "text/html"}
        self._pace = RequestPacer(settings.pause_seconds)

    async def round_page(self, task: Task[Any], league: str, number: int) -> WebPage:
        return await self._page(task, f"{self._url}/{league}/rounds/{number}")

    async def match_page(self, task: Task[Any], url: str) -> WebPage:
        return await self._page(task, url)

    def has(self, url: str) -> bool:
        """Whether the URL is on this site; pages of other sites are not fetched."""
        return urlsplit(url)[:2] == self._origin

    async def _page(self, task: Task[Any], url: str) -> WebPage:
        if not self.has(url):
            raise Fatal(f"{url} is not on the league's site", code="FOREIGN_ADDRESS")
        await self._pace.wait()
        logger.info("fetching %s", url)
        try:
            async with asyncio.timeout(self._page_seconds):
                page = await self._http.page(url, headers=self._headers)
        except TimeoutError:
            raise Transient(
                f"GET {url}: no complete page within {self._page_seconds} s", code="HTTP_TIMEOUT"
            ) from None
        except CallFailed as failed:
            if failed.body:
                task.snapshot(SNAPSHOT, failed.body)
            raise task_error(failed) from failed
        task.snapshot(SNAPSHOT, page.text)
        if not self.has(page.url):
            raise Fatal(f"{url} redirects to another site, {page.url}", code="FOREIGN_ADDRESS")
        return page
