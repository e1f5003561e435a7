"""Documents that crash their parser: only they fail, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.documents.operations import DocumentOperations
from regente.pipelines.documents.settings import DocumentSettings
from regente.pipelines.documents.setup import register_documents
from regente.services.sandbox.sandbox import Sandbox
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.conftest import with_settings
from tests.pipelines.documents.environment import Environment
from tests.pipelines.documents.faults.extractors import EXITS, KILLED, fragile


async def test_a_parser_that_crashes_takes_down_neither_the_execution_nor_the_runner(
    app: Regente,
    registry: Registry,
    sandbox: Sandbox,
    operations: DocumentOperations,
    tmp_path: Path,
) -> None:
    """W3, W8, F15: a segfault and two other crashes: tried three times, then ERRO."""
    registered = register_documents(registry, app, DocumentSettings(), sandbox.url, extract=fragile)
    env = Environment(app, operations, tmp_path)
    good = pdfs.text_pdf("a contrato between two parties")
    env.write("segfault.pdf", pdfs.segfault_pdf())
    for name, mark in {"killed.pdf": KILLED, "exits.pdf": EXITS, "good.pdf": b"% fine"}.items():
        env.write(name, good + mark)
    execution = await env.run(await env.submit())
    await registered.close()
    assert (execution.status, execution.documentos.ERRO) == ("CONCLUIDO", 3)
    found = await env.results(execution.id)
    assert (found["good.pdf"]["status"], found["good.pdf"]["categoria"]) == (
        "CONCLUIDO",
        "contrato",
    )
    told = {name: row["erro_mensagem"] for name, row in found.items() if row["status"] == "ERRO"}
    assert "SIGSEGV" in told["segfault.pdf"]
    assert "SIGKILL" in told["killed.pdf"]
    assert "status 7" in told["exits.pdf"]
    for name in told:
        row = found[name]
        assert (row["erro_codigo"], row["tentativas"], row["erro_etapa"]) == (
            "ISOLATED_CRASH",
            3,
            "TEXT_EXTRACTED",
        )
        assert row["ultimo_erro_em"] is not None
        assert row["erro_stack"]
    (runner,) = await app.runners(everyone=True)
    assert (runner.status, runner.recovered) == ("stopped", 0)


async def test_a_pdf_that_the_parser_segfaults_on_ends_its_own_process(
    env: Environment,
) -> None:
    """W3, W8, F15: a real PDF and a real SIGSEGV of the parser."""
    row = await ended(env, pdfs.segfault_pdf())
    assert row["erro_codigo"] == "ISOLATED_CRASH"
    assert "SIGSEGV" in row["erro_mensagem"]


async def test_the_same_pdf_with_less_nesting_is_read(env: Environment) -> None:
    """W8: the nesting depth crashes the parser; the PDF is well-formed."""
    env.write("shallow.pdf", pdfs.segfault_pdf(depth=400))
    execution = await env.run(await env.submit())
    assert (await env.results(execution.id))["shallow.pdf"]["status"] == "CONCLUIDO"


@with_settings(extract_seconds=100.0, extract_memory_mb=512)
async def test_a_pdf_that_grows_to_a_gibibyte_ends_its_own_process(
    env: Environment,
) -> None:
    """W8, F15: a real PDF and a real abort of the parser."""
    row = await ended(env, pdfs.memory_bomb_pdf())
    assert row["erro_codigo"] in ("ISOLATED_CRASH", "ISOLATED_MEMORY")


@with_settings(extract_seconds=3.0, extract_memory_mb=4096)
async def test_a_pdf_over_the_time_limit_ends_its_own_process(
    env: Environment,
) -> None:
    """W1, W8, F15: a PDF whose text takes far too long to read."""
    row = await ended(env, pdfs.endless_pdf())
    assert (row["erro_codigo"], row["erro_mensagem"]) == (
        "ISOLATED_TIMEOUT",
        "the isolated step took longer than 3 s",
    )


async def ended(env: Environment, bomb: bytes) -> dict[str, Any]:
    """The document's result after one attempt; the document beside it is done."""
    project = await env.operations.project("default")
    await env.operations.put_project(
        **{**project.model_dump(), "name": "hasty", "max_retries_documento": 0}
    )
    env.write("bomb.pdf", bomb)
    env.write("good.txt", "nota fiscal no 12")
    execution = await env.run(await env.submit(project="hasty"))
    found = await env.results(execution.id)
    assert (execution.status, found["good.txt"]["status"]) == ("CONCLUIDO", "CONCLUIDO")
    assert (found["bomb.pdf"]["status"], found["bomb.pdf"]["tentativas"]) == ("ERRO", 1)
    return found["bomb.pdf"]
