"""Groups tests that share an expensive setup into one pytest process."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/contract/scraping_orchestrator/",  # one day of missions
    "tests/e2e/",  # one demo and one browser
    "tests/engine/test_plans.py",  # a million rows
)


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Largest groups first; by path, as pytest 9.2 and xdist 3.8 hide the marks of `loadgroup`."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for group in TOGETHER if nodeid.startswith(group)), nodeid)
