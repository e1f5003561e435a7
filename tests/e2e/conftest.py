"""One `regente up --demo` and one browser for all journeys, each in its own signed-in context."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from psycopg import sql
from psycopg.conninfo import make_conninfo

from regente.console.files import FOLDER, INDEX
from tests.e2e.environment import Demo, chromium, demo_up, running_demo
from tests.e2e.failing_pipelines import FailingPipelines, run_failing_pipelines
from tests.e2e.outcomes import Outcomes, outcomes

WAIT_MS = 30_000
expect.set_options(timeout=30_000)
EXPECTED = re.compile(r"status of 40[14]|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: a journey in a browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs all in one event loop: they share processes and a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo(server_url: str, template: str) -> AsyncIterator[Demo]:
    if not (FOLDER / INDEX).is_file():
        pytest.fail("the console is not built: python scripts/console.py", pytrace=False)
    if given := os.environ.get("REGENTE_E2E_DEMO"):
        yield running_demo(Path(given))
        return
    name = "regente_e2e"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    with tempfile.TemporaryDirectory(prefix="regente-e2e-", ignore_cleanup_errors=True) as folder:
        async with demo_up(make_conninfo(server_url, dbname=name), Path(folder)) as up:
            yield up


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def failing_pipelines(demo: Demo) -> AsyncIterator[FailingPipelines]:
    async with run_failing_pipelines(demo.database_url) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def completed(demo: Demo) -> int:
    """A completed mission of the demo, after all of them ended."""
    async with asyncio.timeout(120):
        await demo.settled.wait()
    async with demo.client() as client:
        found = await client.get("/api/missions", params={"statuses": ["completed"], "limit": 50})
    return int(found.json()["items"][-1]["id"])


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def results(demo: Demo, completed: int) -> Outcomes:
    """Results of the other pipelines, made after the demo's missions."""
    return await outcomes(demo)


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser context in Portuguese, the language of the specification."""
    opened = await browser.new_context(
        locale="pt-BR", viewport={"width": 1280, "height": 900}, accept_downloads=True
    )
    opened.set_default_timeout(WAIT_MS)
    yield opened
    await opened.close()


@pytest.fixture
def console_errors() -> list[str]:
    """Errors in the browser's console. A test that expects some removes them."""
    return []


@pytest_asyncio.fixture(loop_scope="session")
async def signed_out_page(
    context: BrowserContext, console_errors: list[str]
) -> AsyncIterator[Page]:
    """A page without a session. Errors in the browser's console fail the test."""
    page = await context.new_page()
    page.on(
        "console",
        lambda message: console_errors.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: console_errors.append(str(error)))
    yield page
    # Being refused is part of a journey (no session yet, a server that is away); a broken policy
    # or script never is.
    assert [text for text in console_errors if not EXPECTED.search(text)] == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(signed_out_page: Page, demo: Demo) -> Page:
    """A page that is signed in as an admin."""
    await sign_in(signed_out_page, demo.url, demo.api_key)
    return signed_out_page


async def sign_in(page: Page, url: str, api_key: str) -> None:
    answer = await page.context.request.post(f"{url}/api/session", data={"api_key": api_key})
    assert answer.ok, await answer.text()
