"""`regente documents …`: commands and their output."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Cli, plain_logs
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.environment import Environment

__all__ = ["plain_logs"]


@pytest.fixture
def cli(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plain_logs: Iterator[None],
) -> Cli:
    monkeypatch.setenv("REGENTE_DATABASE_URL", database_url)
    return Cli(capsys)


async def test_a_folder_from_the_command_to_its_errors(env: Environment, cli: Cli) -> None:
    """W2 to W5: classify, list, show, errors, reprocess, resume."""
    env.write("a.pdf", pdfs.text_pdf("um contrato"))
    env.write("gone.txt", "um contrato").unlink()
    env.write("scan.pdf", pdfs.scanned_pdf())
    env.write("late.txt", "um contrato")
    made = await cli.json("documents", "classify", str(env.folder), "--name", "lote")
    assert (made["nome"], made["status"], made["total"], made["pasta"]) == (
        "lote",
        "PENDENTE",
        3,
        str(env.folder),
    )
    (env.folder / "late.txt").unlink()
    await env.run(made["id"])
    listed = await cli.json("documents", "list")
    assert [(one["id"], one["status"]) for one in listed] == [(made["id"], "CONCLUIDO")]
    shown = await cli.text("documents", "show", "lote")
    for words in ("CONCLUIDO", "contrato", "they may be scanned", "does not exist"):
        assert words in shown
    assert [
        one["codigo"]
        for one in (await cli.json("documents", "show", "lote", "--status", "PULADO"))["itens"]
    ] == ["scan.pdf"]
    (error,) = await cli.json("documents", "errors", "lote")
    assert (error["codigo"], error["erro_codigo"]) == ("late.txt", "FILE_MISSING")
    assert "FILE_MISSING" in await cli.text("documents", "errors", str(made["id"]))
    assert "nothing to resume" in await cli.text("documents", "resume", "lote")
    assert await cli.json("documents", "reprocess", "lote", "--code", "HTTP_502") == {
        "reprocessed": []
    }
    assert await cli.json("documents", "reprocess", "lote") == {"reprocessed": [error["id"]]}


async def test_files_are_uploaded_for_runners_elsewhere_and_followed(
    env: Environment, cli: Cli
) -> None:
    """W9: with --upload the folder may be removed."""
    path = env.write("a.txt", "um contrato")
    made = await cli.json("documents", "classify", str(env.folder), "--upload")
    path.unlink()
    assert (await env.run(made["id"])).documentos.CONCLUIDO == 1


async def test_projects_are_made_and_shown(env: Environment, cli: Cli) -> None:
    """W3: limits per project."""
    words = (
        "documents",
        "project",
        "p1",
        "--class",
        "sim=it says yes",
        "--class",
        "não",
        "--max-retries-documento",
        "0",
    )
    made = await cli.json(*words)
    assert (made["classes"][0], made["max_retries_documento"]) == (
        {"name": "sim", "description": "it says yes"},
        0,
    )
    assert "p1" in await cli.text("documents", "projects")
    answer = await cli("documents", "project", "p2", "--class", "one", "--json")
    assert (answer.code, answer.error["code"]) == (2, "INVALID_INPUT")


async def test_mistakes_get_one_clear_line(env: Environment, cli: Cli) -> None:
    """F15: nothing is stored."""
    env.write(".hidden", "x")
    for words, said in {
        ("classify", str(env.folder)): "1 to 2,000 documents",
        ("classify", str(env.folder / "nothing")): "is not a folder",
        ("show", "nothing"): "there is no execution",
        ("show", "99"): "there is no execution",
    }.items():
        answer = await cli("documents", *words)
        assert answer.code != 0
        assert said in answer.err
        assert len(answer.err.strip().splitlines()) == 1
    env.write("a.txt", "x")
    assert (
        "there is no project"
        in (await cli("documents", "classify", str(env.folder), "--project", "nothing")).err
    )
    assert await env.operations.executions() == []
