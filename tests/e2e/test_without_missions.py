"""The console of a server with one built-in pipeline, without missions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import Page, Response, expect

from regente import Regente
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.api.conftest import served
from tests.e2e.conftest import sign_in
from tests.support.clean_database import empty_database

PAGES = ("", "batches", "results", "failures", "runners", "audit", "settings")


@pytest.fixture
def database_url(server_url: str) -> Iterator[str]:
    with empty_database(server_url) as url:
        yield url


async def test_no_page_asks_for_what_is_not_there(signed_out_page: Page, database_url: str) -> None:
    """O19, Q10: neither the fleet nor missions are shown, and no request is refused."""
    page, refused = signed_out_page, list[str]()

    def note(answer: Response) -> None:
        if answer.status >= 400:
            refused.append(f"{answer.status} {answer.url}")

    settings = Settings(builtins="embeddings")
    parts = ["api", "embeddings"]
    async with (
        Regente(database_url, settings=settings, pipelines=Registry(), components=parts) as app,
        served(app) as api,
    ):
        await sign_in(page, api.url, api.admin.headers["x-api-key"])
        page.on("response", note)
        for path in PAGES:
            await page.goto(f"{api.url}/{path}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Carregando…")).to_have_count(0)
        await page.goto(f"{api.url}/")
        menu = page.get_by_role("navigation")
        await expect(menu.get_by_role("link", name="Resultados")).to_be_visible()
        await expect(menu.get_by_role("link", name="Missões")).to_have_count(0)
        await expect(menu.get_by_role("link", name="Frota")).to_have_count(0)
        await expect(page.get_by_role("heading", name="Missões")).to_have_count(0)
        await page.goto(f"{api.url}/results")
        await expect(page.get_by_role("tab")).to_have_count(1)
        await page.goto("about:blank")  # ends the live stream before the server stops
    assert refused == []
