"""`regente deploy check` without tasks, with wrong words, and with tasks that it cannot check."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.acceptance.conftest import Cli, SampleTasks

CODE = """
from regente import Task, pipeline


@pipeline("NAME")
async def another(task: Task) -> None:
    pass
"""


_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / f"another_deploy_{next(_numbers)}.py"
    path.write_text(CODE.replace("NAME", path.stem), encoding="utf-8")
    return str(path)


async def test_a_database_without_tasks_in_flight_has_no_problem(
    cli: Cli, sample: SampleTasks, module: str
) -> None:
    """Q12."""
    words = ("deploy", "check", "--import", module, "--pipelines", Path(module).stem)
    assert "Checked 0 of 0 tasks in flight." in await cli.text(*words)
    found = await cli.json(*words)
    assert (found["checked"], found["problems"], found["verdicts"]) == (0, [], {})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--import MODULE"),
        (("--accept", "everything"), "everything is no verdict; known: understood, mismatch"),
        (("--pipelines", "none"), "no pipeline is called none"),
    ],
)
async def test_what_cannot_be_checked_is_said(
    cli: Cli, module: str, words: tuple[str, ...], told: str
) -> None:
    """F15."""
    imported = ("--import", module) if words else ()
    answer = await cli("deploy", "check", *imported, *words, "--json")
    assert answer.code in (1, 2)
    assert told in answer.error["message"]
