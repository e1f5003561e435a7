"""The small form of `python -m tests.e2e.scrolling`, which measures 100,000."""

from __future__ import annotations

from playwright.async_api import Page

from tests.e2e.environment import Demo
from tests.e2e.failing_pipelines import FailingPipelines
from tests.e2e.scrolling import make_missions, measure


async def test_a_long_list_is_fetched_by_page_and_only_visible_rows_exist(
    page: Page, demo: Demo, failing_pipelines: FailingPipelines
) -> None:
    """O19: keyset pages, virtual rows. The script measures long tasks, on an idle machine."""
    await make_missions(failing_pipelines.app, 1500)
    found = await measure(page, demo.url, rounds=10)
    assert found.rows >= 1000
    assert found.most_in_document < 80
