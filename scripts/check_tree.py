"""Checks lock files for addresses, files for machine paths, Python files for SQL, migrations for
their numbers, and Markdown for its links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SQL_IN_PYTHON = re.compile(
    r"""["'](?:WITH|SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE)\s+(?!\d)[a-z(]"""
)
MACHINE_PATHS = re.compile(r"/(?:root|home/\w+|Users/\w+)/")
LINE_LENGTH = 100  # ruff checks it in Python
ADDRESS = re.compile(r"https?://")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)[^)]*\)")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def findings() -> list[str]:
    found = [
        f"{path.name}: a lock file with a download address"
        for path in tracked("*lock*")
        if ADDRESS.search(_text(path))
    ]
    for path in tracked("src/*.py"):
        name = path.relative_to(ROOT)
        found += [
            f"{name}: SQL belongs into a .sql file: {match.group(0)}"
            for match in SQL_IN_PYTHON.finditer(_text(path))
        ]
    for path in tracked("*.sql"):
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if len(line) > LINE_LENGTH:
                found.append(f"{path.relative_to(ROOT)}:{number}: longer than {LINE_LENGTH}")
    found += misnumbered_migrations()
    found += broken_links()
    for path in tracked():
        if path.suffix in {
            ".py",
            ".sql",
            ".toml",
            ".md",
            ".sh",
            ".yml",
            ".yaml",
            ".json",
        } and MACHINE_PATHS.search(_text(path)):
            found.append(f"{path.relative_to(ROOT)}: a path of one machine")
    return found


def misnumbered_migrations() -> list[str]:
    """Two changes may take the same number at the same time; neither sees the other's."""
    folders: dict[Path, list[int]] = {}
    for path in tracked("src/*.up.sql"):
        folders.setdefault(path.parent, []).append(int(path.name.split("_")[0]))
    return [
        f"{folder.relative_to(ROOT)}: the migrations are not numbered 1, 2, 3, … without a gap"
        for folder, numbers in folders.items()
        if sorted(numbers) != list(range(1, len(numbers) + 1))
    ]


def broken_links() -> list[str]:
    """Links of Markdown files to files of the tree."""
    return [
        f"{path.relative_to(ROOT)}: a link to {target}, which is not there"
        for path in tracked("*.md")
        for target in LINK.findall(_text(path))
        if not (path.parent / target).exists()
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    problems = findings()
    print("\n".join(problems) or "tree: ok")
    sys.exit(bool(problems))
