"""Runs the examples of docs/pipelines/rounds-adapters.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regente.pipelines.rounds.load_adapters import OURS

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "rounds-adapters.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example as an installed package, with its test and its saved pages."""
    for block in blocks("python"):
        name = re.match(r'"""(\w+\.py)', block)
        assert name is not None
        (tmp_path / name[1]).write_text(block, "utf-8")
    for block in blocks("html"):
        comment, _, page = block.partition("\n")
        (tmp_path / comment.strip("<!-> ")).write_text(page, "utf-8")
    [entry, _] = blocks("toml")
    info = tmp_path / "kopa-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kopa\nVersion: 1.0\n")
    points = entry.replace(
        '[project.entry-points."regente.rounds.sites"]', "[regente.rounds.sites]"
    )
    (info / "entry_points.txt").write_text(points.replace('"', ""))
    return tmp_path


def ran(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_test_passes_with_the_saved_pages(folder: Path) -> None:
    """Z1, Z3."""
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(folder))
    assert "1 passed" in ran(folder, "pytest", *options, "test_kopa_site.py")


def test_the_installed_package_is_found_and_tried(folder: Path) -> None:
    """Z1, Z3: by its entry point."""
    assert "kopa " in ran(folder, "regente", "rounds", "sites")
    [command] = re.findall(r"^regente rounds try-site .+$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert '"Estádio Alfa"' in ran(folder, *command.split())


def test_the_file_on_the_page_is_the_one_that_comes_with_regente() -> None:
    """Z1: tests/pipelines/rounds/test_sites.py runs it."""
    assert blocks("toml")[1] == Path(OURS["placar"]).read_text("utf-8")
