"""Checks lock files for addresses, files for machine paths, Python files for SQL, migrations for
their numbers, Markdown for its links, and the glossary for its paths."""

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
LINK = re.compile(
    r"(?:\]\(|^\[[^\]]+\]: )(?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?", re.MULTILINE
)
HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
GLOSSARY = ROOT / "docs" / "glossary.md"
PLACE = re.compile(r"`([\w.*-]+/[\w./*-]*|[\w*-]+\.(?:py|sql))`")


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
    found += missing_places()
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
    """Links of Markdown files to files of the tree and to headings of Markdown files."""
    found = []
    for path in tracked("*.md"):
        for target, heading in LINK.findall(_text(path)):
            file = path.parent / target if target else path
            if not file.exists():
                found.append(f"{path.relative_to(ROOT)}: a link to {target}, which is not there")
            elif heading and file.suffix == ".md" and heading not in anchors(_text(file)):
                found.append(f"{path.relative_to(ROOT)}: {target} has no heading #{heading}")
    return found


def anchors(page: str) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text) for text in HEADING.findall(page))
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in texts}


def missing_places() -> list[str]:
    """Paths in the glossary that are neither below `src/regente` nor below the root."""
    return [
        f"{GLOSSARY.relative_to(ROOT)}: {place} is not there"
        for place in PLACE.findall(_text(GLOSSARY))
        if not any(any(top.glob(place.rstrip("/"))) for top in (ROOT / "src" / "regente", ROOT))
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    problems = findings()
    print("\n".join(problems) or "tree: ok")
    sys.exit(bool(problems))
