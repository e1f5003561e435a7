"""Updates the last column of docs/requirements.md and docs/faults.md: which tests name each id.

python scripts/requirements.py           list what is stale or undefined; exit with 1 if anything is
python scripts/requirements.py --write   write both pages
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "docs" / "requirements.md", ROOT / "docs" / "faults.md")
LETTERS = "OQZSWIF"
ROW = re.compile(rf"^\| (?P<id>[{LETTERS}]\d+) \| (?P<what>.*?) \|(?P<tests>[^|]*)\|$")
ID = re.compile(rf"\b([{LETTERS}])(\d+)(?:(?:\s*[–-]\s*|\s+to\s+)\1?(\d+))?\b")


def ids_in(text: str) -> set[str]:
    """`S1, I3–I5, F1 to F2` names S1, I3, I4, I5, F1 and F2."""
    found: set[str] = set()
    for letter, first, last in ID.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


def proofs() -> dict[str, set[str]]:
    """The tests that name each id in the first paragraph of a docstring."""
    proved: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for text in docstrings(path):
            for found in ids_in(text.split("\n\n")[0]):
                proved[found].add(path.relative_to(ROOT).as_posix())
    return proved


def undefined(defined: set[str]) -> list[str]:
    """Ids in docstrings of tests that no page defines."""
    return [
        f"{path.relative_to(ROOT)}: {found} is defined in no page"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for found in sorted(ids_in("\n".join(docstrings(path))) - defined)
    ]


def rewritten(page: str, proved: dict[str, set[str]]) -> str:
    lines = []
    for line in page.splitlines():
        match = ROW.match(line)
        if match:
            names = sorted(proved.get(match["id"], ()))
            tests = ", ".join(f"[{Path(name).stem}](../{name})" for name in names)
            row = f"| {match['id']} | {match['what']} | {tests or '**no test**'} |"
            if row not in lines:  # a merge of two branches may have kept both
                lines.append(row)
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def defined_in(page: str) -> set[str]:
    return {match["id"] for line in page.splitlines() if (match := ROW.match(line))}


def repeated(page: str) -> list[str]:
    """Ids that a page defines more than once."""
    ids = [match["id"] for line in page.splitlines() if (match := ROW.match(line))]
    return [f"{one} is defined more than once" for one in sorted(set(ids)) if ids.count(one) > 1]


def main() -> int:
    proved, defined, problems = proofs(), set[str](), []
    for path in PAGES:
        before = path.read_text("utf-8")
        after = rewritten(before, proved)
        defined |= defined_in(before)
        problems += repeated(after)
        if "--write" in sys.argv:
            path.write_text(after, "utf-8")
        elif before != after:
            problems.append(
                f"{path.relative_to(ROOT)} is stale: run `python scripts/requirements.py --write`"
            )
    problems += undefined(defined)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
