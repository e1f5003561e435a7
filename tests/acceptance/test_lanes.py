"""`regente lanes`, and the example of docs/concepts/lanes.md."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from regente import Regente
from tests.acceptance.conftest import Cli

DOCS = Path(__file__).parents[2] / "docs" / "concepts" / "lanes.md"


async def test_lanes_are_listed_set_parked_and_opened(cli: Cli, database_url: str) -> None:
    """Q2, Q9: by people, with `--json` for programs."""
    assert "No lanes." in await cli.text("lanes", "list")
    made = await cli.json("lanes", "set", "shop.example", "--pipeline", "pages", "--rate", "0.5")
    assert (made["name"], made["rate"], made["own"]) == ("shop.example", 0.5, ["rate"])
    words = ("lanes", "set", "shop.example", "--concurrency", "4", "--rate", "default")
    changed = await cli.json(*words)
    assert (changed["concurrency"], changed["rate"], changed["own"]) == (4, None, ["concurrency"])
    parked = await cli.json("lanes", "park", "shop.example", "--seconds", "60")
    assert (parked["status"], parked["parked_because"]) == ("parked", "by an operator")
    assert "parked" in await cli.text("lanes", "list")
    assert "is open." in await cli.text("lanes", "open", "shop.example")
    assert (await cli.json("lanes", "show", "shop.example"))["status"] == "idle"
    assert "concurrency" in await cli.text("lanes", "show", "shop.example")
    assert len(await cli.json("lanes", "list", "--search", "example")) == 1
    assert await cli.json("lanes", "list", "--pipeline", "pages") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "none"), "there is no lane 'none'"),
        (("set", "none"), "which limit"),
        (("set", "none", "--rate", "fast"), "--rate is a number or default"),
        (("set", "none", "--weight", "1.5"), "--weight is a whole number"),
        (("park", "none"), "there is no lane 'none'"),
        (("open", "none"), "there is no lane 'none'"),
    ],
)
async def test_what_cannot_be_done_is_said(cli: Cli, words: tuple[str, ...], told: str) -> None:
    """O16."""
    answer = await cli("lanes", *words, "--json")
    assert answer.code in (1, 2)
    assert told in answer.error["message"]


async def test_the_example_of_the_docs(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: it runs as it is written."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text(f"{example}\n\nimport asyncio\nasyncio.run(main())\n", "utf-8")
    monkeypatch.setenv("REGENTE_DATABASE_URL", database_url)
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    lines = [line for line in out.decode().splitlines() if " idle " in line]
    assert lines == ["night shift idle 4 2.0", "shop.example idle 4 2.0"]
    async with Regente(database_url) as app:
        assert {task.lane for task in await app.tasks()} == {"shop.example", "night shift"}
