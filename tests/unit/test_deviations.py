"""The check of docs/deviations.md refuses what a merge or a renamed test leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADER = "## Missions (000)\n\n| § | says | does | why | test |\n|---|---|---|---|---|\n"
TEST = "[is_refused](../tests/unit/test_deviations.py)"
ROW = f"| 7.1 | retry with a new proxy | through the same one | one proxy | {TEST} |\n"


def checked(page: str, folder: Path) -> tuple[int, str]:
    path = folder / "page.md"
    path.write_text(HEADER + page, "utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "deviations.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "twin",
    [
        f"| 7.1 | retry with a new proxy | another text | one proxy | {TEST} |\n",
        f"| 4.3 | retry with a new proxy; or not | another text | one proxy | {TEST} |\n",
        f"| 4.3 | another sentence | through the same one, by (7.1) | one proxy | {TEST} |\n",
    ],
)
def test_a_deviation_that_is_there_twice_is_refused(twin: str, tmp_path: Path) -> None:
    assert checked(ROW, tmp_path) == (0, "")
    code, text = checked(ROW + twin, tmp_path)
    assert (code, text.count("\n")) == (1, 1)
    assert text.startswith("page.md, line 6 repeats line 5: ")


@pytest.mark.parametrize(
    "tests",
    [
        "`test_of_nothing_at_all`",
        "[never_heard_of](../tests/unit/test_deviations.py)",
        "[is_refused](../tests/unit/test_gone.py)",
        "each section",
    ],
)
def test_a_deviation_without_a_test_that_exists_is_refused(tests: str, tmp_path: Path) -> None:
    code, text = checked(f"| 7.1 | a sentence | a deed | a reason | {tests} |\n", tmp_path)
    assert code == 1
    assert "page.md, line 5: " in text
