"""Checks docs/deviations.md: each deviation is there once, and names tests that exist.

python scripts/deviations.py [PAGE]      list what is wrong; exit with 1 if anything is
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "deviations.md"
CELLS = re.compile(r"(?<!\\)\|")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")
NAME = re.compile(r"`(test_\w+)`")
TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


class Row(NamedTuple):
    line: int
    document: str
    section: str
    sentence: str
    instead: str
    reason: str
    tests: str


def rows(page: str) -> Iterator[Row]:
    document = ""
    for number, line in enumerate(page.splitlines(), start=1):
        if line.startswith("## "):
            document = line[3:]
        cells = [cell.strip() for cell in CELLS.split(line)[1:-1]]
        if len(cells) == 5 and cells[0] != "§" and set(cells[0]) != {"-"}:
            yield Row(number, document, *cells)


def repeated(found: list[Row]) -> list[str]:
    """Rows that say the same deviation twice; one may say more of it than the other."""
    return [
        f"line {second.line} repeats line {first.line}: {first.sentence}"
        for first, second in combinations(found, 2)
        if first.document == second.document
        and (_same(first.sentence, second.sentence) or _same(first.instead, second.instead))
    ]


def _same(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def untested(found: list[Row]) -> list[str]:
    problems = []
    for row in found:
        names = [name for name in NAME.findall(row.tests) if name not in all_tests()]
        names += [text for text, target in LINK.findall(row.tests) if not _has(target, text)]
        problems += [f"line {row.line}: there is no test {name}" for name in names]
        if not row.reason or not (NAME.search(row.tests) or LINK.search(row.tests)):
            problems.append(f"line {row.line}: has no reason or no test")
    return problems


def _has(target: str, text: str) -> bool:
    """A link names a file of tests, or a part of the name of a test in it."""
    path = (PAGE.parent / target).resolve()
    return path.is_file() and (text == path.stem or any(text in test for test in tests_in(path)))


@cache
def tests_in(path: Path) -> frozenset[str]:
    return frozenset(TEST.findall(path.read_text("utf-8")))


@cache
def all_tests() -> frozenset[str]:
    return frozenset().union(*map(tests_in, (ROOT / "tests").rglob("test_*.py")))


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    found = list(rows(path.read_text("utf-8")))
    problems = repeated(found) + untested(found)
    print("\n".join(f"{path.name}, {problem}" for problem in problems), end="\n" * bool(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
