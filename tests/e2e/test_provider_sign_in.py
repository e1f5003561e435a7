"""Sign-in with an OpenID Connect provider on another site, in a real browser."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.api.oidc.conftest import ANA, free_port
from tests.api.oidc.openid_provider import CLIENT_ID, SECRET, openid_provider
from tests.api.processes import caller, command
from tests.e2e.test_craft import violations


async def _at_the_provider(page: Page, login: str) -> None:
    await page.locator('input[name="login"]').fill(login)
    await page.locator('input[name="password"]').fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()


async def test_people_sign_in_and_out_and_are_told_when_they_may_not(
    signed_out_page: Page, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O18, O19: the strict cookie reaches the console although the browser comes from elsewhere."""
    page, port = signed_out_page, free_port()
    url = f"http://127.0.0.1:{port}"  # the provider is at localhost: another site
    async with openid_provider(url) as provider:
        provider.know(ana=ANA, bob={"email": "bob@example.com"})

        async def without_fonts(route: Route) -> None:
            await route.fulfill(status=200, content_type="text/css", body="")

        await page.route(re.compile("fonts"), without_fonts)
        monkeypatch.setenv("REGENTE_OIDC_CLIENT_SECRET", SECRET)
        monkeypatch.setenv("REGENTE_OIDC_NAME", "Crachá <1>")
        options = ("--public-url", url, "--oidc-issuer", provider.issuer)
        async with command(
            database_url, tmp_path, *options, "--oidc-client-id", CLIENT_ID, port=port
        ):
            await page.goto(f"{url}/batches")
            button = page.get_by_role("link", name="Entrar com Crachá <1>")
            await expect(button).to_be_visible()
            assert await violations(page) == []
            await button.click()
            await _at_the_provider(page, "ana")
            await page.wait_for_url(f"{url}/batches")
            leave = page.get_by_role("button", name="Sair")
            await expect(leave).to_have_attribute("title", "oidc:ana@example.com · operator")
            await page.locator("main[data-live=live]").wait_for()
            await page.goto(f"{url}/settings")
            await expect(page.get_by_text("Suas sessões")).to_be_visible()
            await expect(page.get_by_text("Esta", exact=True)).to_be_visible()
            await leave.click()
            await page.wait_for_url(f"{provider.issuer}/**")
            await page.context.clear_cookies()
            await page.goto(f"{url}/sign-in")
            await button.click()
            await _at_the_provider(page, "bob")
            await page.wait_for_url(f"{url}/sign-in?problem=no_role")
            await expect(page.get_by_role("alert")).to_contain_text("não tem um papel")
            assert await violations(page) == []
            async with caller(url, {}) as client:
                assert (await client.get("/api/session")).status_code == 401
    log = await asyncio.to_thread((tmp_path / "serve.log").read_text, "utf-8")
    assert "oidc:bob@example.com" in log
    assert SECRET not in log
    assert "code=" not in log
