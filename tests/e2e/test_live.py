"""The connection state: stale when the server is away, live again when it is back."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Page, expect

from tests.api.processes import command
from tests.e2e.conftest import sign_in
from tests.e2e.environment import Demo


async def test_stale_when_the_server_is_gone_and_live_when_it_is_back(
    signed_out_page: Page, demo: Demo, tmp_path: Path
) -> None:
    """O16: reconnects at once, warns after 60 s without an event, becomes live by itself."""
    page = signed_out_page
    await page.clock.install()
    async with command(demo.database_url, tmp_path) as served:
        await sign_in(page, served["url"], demo.api_key)
        await page.goto(f"{served['url']}/missions")
        await expect(page.locator(".live")).to_have_text("Ao vivo")
    await expect(page.locator(".live")).to_have_text("Reconectando")
    await page.clock.fast_forward(61_000)
    warning = page.get_by_role("alert").filter(has_text="Os dados podem estar desatualizados")
    await expect(warning).to_contain_text(re.compile(r"Última atualização às \d\d:\d\d:\d\d"))
    await expect(page.locator("main")).to_have_attribute("data-live", "stale")
    async with command(demo.database_url, tmp_path, port=urlsplit(served["url"]).port):
        await warning.get_by_role("button", name="Tentar novamente").click()
        await expect(page.locator(".live")).to_have_text("Ao vivo")
        await expect(warning).to_be_hidden()


async def test_it_can_be_paused(page: Page, demo: Demo) -> None:
    """O16: paused is its own state, with the time of the data."""
    await page.goto(f"{demo.url}/missions")
    await expect(page.locator(".live")).to_have_text("Ao vivo")
    await page.get_by_role("button", name="Pausar").click()
    await expect(page.locator(".live")).to_have_text("Pausado")
    await expect(page.get_by_text("Pausado: atualizações ao vivo desligadas")).to_be_visible()
    await page.get_by_role("button", name="Continuar").first.click()
    await expect(page.locator(".live")).to_have_text("Ao vivo")
