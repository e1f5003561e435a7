"""The small form of `python -m tests.pipelines.lanes`: four runners, two kills, and a sandbox that
counts by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.lanes.campaign import LIMITS, RATES, run


@pytest.mark.timeout(600)
async def test_no_provider_shop_or_site_gets_more_calls_than_its_limit(
    database_url: str, tmp_path: Path
) -> None:
    """F1, Q2: all runners together, also when some are killed; and nothing is lost."""
    found = await run(database_url, tmp_path, kills=2, amount=1)
    assert found.exceeded == []
    assert found.left == {}, found.waits
    assert found.lanes == {*LIMITS}
    # The limits were met, not only kept: calls did wait.
    assert [found.counts.most[what] for what in ("shop", "search", "chat")] == [3, 2, 2]
    for what, rate in RATES.items():
        assert found.counts.rate(what) <= rate * 1.05
