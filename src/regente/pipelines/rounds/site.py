"""Fetches pages of leagues' sites, in their lanes; attaches each as a snapshot to its attempt."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

from regente.engine.errors import Fatal, Transient
from regente.engine.task import Task
from regente.http_client.client import CallFailed, HttpClient, WebPage
from regente.http_client.lanes import lane_of
from regente.http_client.task_errors import task_error
from regente.pipelines.rounds.load_adapters import KnownSite, known_sites, site_of
from regente.pipelines.rounds.settings import RoundSettings

logger = logging.getLogger("regente.rounds")

SNAPSHOT = "page.html"


class Site:
    """A league's site with its adapter."""

    def __init__(
        self, http: HttpClient, settings: RoundSettings, known: KnownSite, base_url: str
    ) -> None:
        self.adapter = known.reference
        self._http = http
        self._round_url = known.adapter.round_url
        self._url = base_url.rstrip("/")
        self._origin = urlsplit(self._url)[:2]
        self._page_seconds = settings.page_seconds
        self._headers = {"user-agent": settings.user_agent, "accept": "text/html"}
        self._lane = lane_of("league", self._url, settings.lane_limits)

    async def round_page(self, task: Task[Any], league: str, number: int) -> WebPage:
        path = self._round_url(league, number).lstrip("/")
        return await self._page(task, f"{self._url}/{path}")

    async def match_page(self, task: Task[Any], url: str) -> WebPage:
        return await self._page(task, url)

    def has(self, url: str) -> bool:
        """Whether the URL is on this site; pages of other sites are not fetched."""
        return urlsplit(url)[:2] == self._origin

    async def _page(self, task: Task[Any], url: str) -> WebPage:
        if not self.has(url):
            raise Fatal(f"{url} is not on the league's site", code="FOREIGN_ADDRESS")
        async with task.in_lane(self._lane):
            page = await self._fetch(task, url)
        task.snapshot(SNAPSHOT, page.text)
        if not self.has(page.url):
            raise Fatal(f"{url} redirects to another site, {page.url}", code="FOREIGN_ADDRESS")
        return page

    async def _fetch(self, task: Task[Any], url: str) -> WebPage:
        logger.info("fetching %s", url)
        try:
            async with asyncio.timeout(self._page_seconds):
                return await self._http.page(url, headers=self._headers)
        except TimeoutError:
            raise Transient(
                f"GET {url}: no complete page within {self._page_seconds} s", code="HTTP_TIMEOUT"
            ) from None
        except CallFailed as failed:
            if failed.body:
                task.snapshot(SNAPSHOT, failed.body)
            raise task_error(failed) from failed


class Sites:
    """The sites of all leagues: each has a lane of its own."""

    def __init__(self, http: HttpClient, settings: RoundSettings, sandbox_url: str) -> None:
        self._known = known_sites(settings.sites)
        own = {"league": settings.site_url} if settings.site_url else {}
        self._sites = {
            one.reference: Site(
                http,
                settings,
                one,
                own.get(one.name)
                or one.adapter.base_url.replace("{sandbox}", sandbox_url.rstrip("/")),
            )
            for one in self._known
        }

    def of(self, league: str) -> Site:
        return self._sites[site_of(self._known, league).reference]
