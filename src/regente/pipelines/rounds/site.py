"""The league's site: its pages, asked for gently, each kept as a snapshot for the case that its
attempt fails."""

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
    """So much time between two requests of this process, however many tasks want one."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._next_at = 0.0

    async def turn(self) -> None:
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

    def is_ours(self, url: str) -> bool:
        """A page may name any address: only those of the site itself are asked for."""
        return urlsplit(url)[:2] == self._origin

    async def _page(self, task: Task[Any], url: str) -> WebPage:
        if not self.is_ours(url):
            raise Fatal(f"{url} is not on the league's site", code="FOREIGN_ADDRESS")
        await self._pace.turn()
        logger.info("asking for %s", url)
        try:
            async with asyncio.timeout(self._page_seconds):
                page = await self._http.page(url, headers=self._headers)
        except TimeoutError:
            raise Transient(
                f"GET {url}: no whole page within {self._page_seconds} s", code="HTTP_TIMEOUT"
            ) from None
        except CallFailed as failed:
            if failed.body:
                task.snapshot(SNAPSHOT, failed.body)
            raise task_error(failed) from failed
        task.snapshot(SNAPSHOT, page.text)
        if not self.is_ours(page.url):
            raise Fatal(
                f"{url} leads away from the league's site, to {page.url}", code="FOREIGN_ADDRESS"
            )
        return page
