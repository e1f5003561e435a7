"""Keeps the last column of docs/requirements.md in step with the ids that tests name in their
docstrings.

python scripts/requirements.py           say what is stale, exit 1 if anything is
python scripts/requirements.py --write   write it anew
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"
ROW = re.compile(r"^\| (?P<id>[OQZSWI]\d+) \| (?P<what>.*?) \| (?P<tests>[^|]*)\|$")
ID = re.compile(r"\b([OQZSWI])(\d+)(?:\s*[–-]\s*[OQZSWI]?(\d+))?\b")


def ids_in(text: str) -> set[str]:
    """`S1, I3–I5` names S1, I3, I4 and I5."""
    found: set[str] = set()
    for letter, first, last in ID.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def proofs() -> dict[str, set[str]]:
    proved: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                for requirement in ids_in((ast.get_docstring(node) or "").split("\n\n")[0]):
                    proved[requirement].add(path.relative_to(ROOT).as_posix())
    return proved


def rewritten(page: str) -> str:
    proved = proofs()
    lines = []
    for line in page.splitlines():
        match = ROW.match(line)
        if match:
            tests = ", ".join(
                f"[{Path(name).stem}](../{name})" for name in sorted(proved[match["id"]])
            )
            line = f"| {match['id']} | {match['what']} | {tests + ' ' if tests else ''}|"  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    before = PAGE.read_text("utf-8")
    after = rewritten(before)
    if "--write" in sys.argv:
        PAGE.write_text(after, "utf-8")
    elif before != after:
        print("docs/requirements.md is stale: run `python scripts/requirements.py --write`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
