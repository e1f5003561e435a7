"""`regente quotes …` on a real database, with a runner as a process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from regente.services.sandbox import Sandbox
from tests.pipelines.quotes.processes import QuoteRunner
from tests.support.runner_process import ROOT


class Cli:
    def __init__(self, database_url: str, folder: Path) -> None:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("REGENTE_", "JOB_"))
        }
        self._environment = {
            **clean,
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_DATA_DIR": str(folder),
        }

    async def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "regente", "quotes", *words]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done)
        return done

    async def json(self, *words: str) -> Any:
        return json.loads((await self(*words, "--json")).stdout)


async def test_a_file_of_items_becomes_a_lot_of_quotes(
    database_url: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Submit, follow, list, show, lots; as tables and as JSON."""
    cli = Cli(database_url, tmp_path)
    (tmp_path / "items.csv").write_text(
        "reference;description\nP-1;Cadeira preta\nP-2;Fiat Uno Mille 2010\n", "utf-8"
    )
    with QuoteRunner(database_url, sandbox.url, tmp_path):
        followed = await cli.json(
            "submit", str(tmp_path / "items.csv"), "Mesa redonda", "--lot", "inventário", "--follow"
        )
    assert (followed["completed"], followed["failed"], followed["quoted"]) == (3, 0, 3)
    listed = await cli.json("list", "--lot", "inventário", "--status", "DONE")
    assert {one["reference"] for one in listed} == {"P-1", "P-2", None}
    chair = next(one["id"] for one in listed if one["reference"] == "P-1")
    text = (await cli("show", str(chair))).stdout
    for word in (
        "Evidence",
        "Statistics",
        "Checkpoints",
        "outlier",
        "Casa Forte",
        "json_ld",
        "AI_ANALYSIS_DONE",
        "COMPLETED",
    ):
        assert word in text, text
    shown = await cli.json("show", str(chair))
    assert (shown["status"], len(shown["sources"]), shown["processing_checkpoint"]) == (
        "DONE",
        6,
        "COMPLETED",
    )
    assert "inventário" in (await cli("lots")).stdout


async def test_mistakes_are_reported_in_one_line(database_url: str, tmp_path: Path) -> None:
    """Clear errors, exit codes, and nothing stored."""
    cli = Cli(database_url, tmp_path)
    (tmp_path / "bad.csv").write_text("what\nCadeira\n", "utf-8")
    (tmp_path / "bad.jsonl").write_text('{"description": "ok"}\n{"description": ""}\n', "utf-8")
    wrong = [
        await cli("submit", str(tmp_path / "bad.csv"), code=2),
        await cli("submit", str(tmp_path / "bad.jsonl"), code=2),
    ]
    assert "description" in wrong[0].stderr
    assert "line 2" in wrong[1].stderr
    assert "no quote 99" in (await cli("show", "99", code=1)).stderr
    assert (await cli.json("list")) == []
