"""Debian's Chromium, driven by Playwright. Without either, or without a built console, these tests are skipped and say why."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regente.console.files import FOLDER, INDEX
from tests.api.processes import command

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page


CHROMIUM = os.environ.get("REGENTE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 10_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: a journey in a browser")


def missing() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed"
    if not CHROMIUM:
        return "there is no Chromium: apt-get install chromium, or set REGENTE_CHROMIUM"
    return None if (FOLDER / INDEX).is_file() else "the console is not built: python scripts/console.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why_not = missing()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if why_not:
                item.add_marker(pytest.mark.skip(reason=why_not))


@pytest.fixture
async def told(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[dict[str, str]]:
    """What `regente serve` told when it started: url, sign_in, api_key."""
    async with command(database_url, tmp_path, *getattr(request, "param", ())) as found:
        yield found


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[BrowserContext]:
    """A browser of the test's own, in Portuguese. What its console says is an error fails the test."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=CHROMIUM,
            args=FLAGS,
            locale="pt-BR",
            viewport={"width": 1400, "height": 900},
        )
        context.set_default_timeout(WAIT_MS)
        yield context
        await context.close()


@pytest.fixture
async def page(browser: BrowserContext) -> AsyncIterator[Page]:
    page = browser.pages[0]
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    # Being refused is part of a journey (nobody has signed in, there is no such mission); a broken policy or script never is.
    assert [text for text in complaints if not re.search(r"status of 40[14]|ERR_CONNECTION", text)] == []
