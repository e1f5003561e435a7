"""`regente embeddings …` on the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from tests.pipelines.embeddings.processes import ROOT


async def command(database_url: str, *words: str, stdin: str | None = None, code: int = 0) -> Any:
    """The command's JSON output; fails the test on another exit code."""

    def call() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "regente", *words, "--json"],
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ
            | {"REGENTE_DATABASE_URL": database_url, "REGENTE_EMBEDDINGS_MODEL": "hashing"},
        )

    done = await asyncio.to_thread(call)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout if code == 0 else done.stderr)


async def test_a_file_is_added_embedded_counted_and_searched(
    database_url: str, tmp_path: Path
) -> None:
    """S5 from the command line."""
    file = tmp_path / "reviews.jsonl"
    file.write_text(
        "".join(
            json.dumps({"text": f"review {number} of a chair"}) + "\n" for number in range(250)
        ),
        "utf-8",
    )
    added = await command(database_url, "embeddings", "add", str(file), "--batch", "reviews")
    assert (added["texts"], added["tasks"], added["model"], added["batch"]) == (
        250,
        3,
        "hashing",
        "reviews",
    )
    piped = await command(
        database_url, "embeddings", "add", "-", stdin="coffee from Santos\n\nreview 7 of a chair\n"
    )
    assert piped["texts"] == 2
    await command(database_url, "run", "--pipelines", "embeddings", "--until-idle")
    stats = await command(database_url, "embeddings", "stats")
    assert (stats["vectors"], stats["models"][0]["dimensions"], stats["tasks"]["completed"]) == (
        251,
        256,
        4,
    )
    found = await command(database_url, "embeddings", "search", "Santos coffee", "--limit", "2")
    assert found[0]["text"] == "coffee from Santos"


async def test_a_wrong_model_is_one_clear_line(database_url: str) -> None:
    answer = await command(
        database_url, "embeddings", "add", "-", "--model", "a model", stdin="text\n", code=2
    )
    assert "is not a model" in answer["error"]["message"]


async def test_a_wrong_line_queues_nothing(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "fine"}\n' * 3 + '{"title": "no text"}\n', "utf-8")
    answer = await command(database_url, "embeddings", "add", str(file), code=2)
    assert "line 4 of" in answer["error"]["message"]
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM regente.tasks").fetchone() == (0,)
