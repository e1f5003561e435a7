"""Which tests share a process: those that share what takes long to set up. The others go wherever
there is room."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/e2e/",  # one demo and one browser
    "tests/engine/test_plans.py",  # a million rows
)


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """The largest groups begin first. By path: the marks of `--dist loadgroup` are not seen with
    pytest 9.2 and xdist 3.8."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for group in TOGETHER if nodeid.startswith(group)), nodeid)
