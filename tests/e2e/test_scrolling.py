"""The small form of `python -m tests.e2e.scrolling`, which measures 100,000."""

from __future__ import annotations

from playwright.async_api import Page

from tests.e2e.scenery import Scenery
from tests.e2e.scrolling import make_missions, measure
from tests.e2e.stage import Demo


async def test_a_long_list_is_fetched_page_by_page_and_only_what_is_in_sight_exists(
    page: Page, demo: Demo, set_up: Scenery
) -> None:
    """O19: keyset pages, virtual rows. How long tasks take is measured by the script: here others
    use the machine, too."""
    await make_missions(set_up.app, 1500)
    found = await measure(page, demo.url, rounds=10)
    assert found.rows >= 1000
    assert found.most_in_document < 80
