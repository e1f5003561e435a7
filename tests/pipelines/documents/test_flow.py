"""A document from its file to its class: read, skipped with a reason, stored."""

from __future__ import annotations

import hashlib

from regente.pipelines.documents.models import DocumentStatus
from regente.pipelines.documents.standins.openrouter import OpenRouter
from tests.pipelines.documents import pdfs
from tests.pipelines.documents.conftest import with_settings
from tests.pipelines.documents.environment import Environment

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def test_a_folder_of_documents_is_classified(env: Environment, chat: OpenRouter) -> None:
    """W2, W4: CONCLUIDO, each document with its class, its text's size and its hash."""
    contract = pdfs.text_pdf("This contrato binds the parties", pages=3)
    env.write("a.pdf", contract)
    env.write("below/b.txt", "Uma decisão do juiz da 3ª vara")
    env.write("c.txt", "Ofício nº 12, à secretaria".encode("cp1252"))
    execution = await env.run()
    assert execution.status == "CONCLUIDO"
    assert dict(execution.documentos) == {
        one: 3 if one == "CONCLUIDO" else 0 for one in DocumentStatus
    }
    found = await env.results(execution.id)
    assert {name: row["categoria"] for name, row in found.items()} == {
        "a.pdf": "contrato",
        "below/b.txt": "decisão",
        "c.txt": "ofício",
    }
    row = found["a.pdf"]
    assert (row["tipo"], row["paginas"], row["tentativas"]) == ("pdf", 3, 1)
    assert row["sha256"] == hashlib.sha256(contract).hexdigest()
    assert chat.calls["answered"] == 3
    assert set(chat.paid.values()) == {1}


@with_settings(max_file_mb=1)
async def test_an_unreadable_file_is_skipped_with_its_reason(
    env: Environment, chat: OpenRouter
) -> None:
    """W4, W8: PULADO at the first attempt, without a call of the API."""
    for name, content in {
        "corrupt.pdf": pdfs.corrupt_pdf(),
        "cut.pdf": pdfs.text_pdf("a contrato " * 50)[:300],
        "empty.pdf": b"",
        "blank.txt": b" \n\t ",
        "encrypted.pdf": pdfs.encrypted_pdf(),
        "huge.pdf": pdfs.text_pdf("x") + bytes(2**20),
        "image.png": PNG,
        "photo.pdf": PNG,
        "scan.pdf": pdfs.scanned_pdf(),
        "pageless.pdf": pdfs.pageless_pdf(),
        "archive.docx": b"PK\x03\x04" + bytes(50),
        "short.txt": b"ab",
    }.items():
        env.write(name, content)
    execution = await env.run()
    assert (execution.status, execution.documentos.PULADO) == ("CONCLUIDO", 12)
    found = await env.results(execution.id)
    assert {name: row["pulado_codigo"] for name, row in found.items()} == {
        "corrupt.pdf": "PDF_UNREADABLE",
        "cut.pdf": "PDF_UNREADABLE",
        "empty.pdf": "EMPTY",
        "blank.txt": "EMPTY",
        "encrypted.pdf": "PDF_ENCRYPTED",
        "huge.pdf": "TOO_LARGE",
        "image.png": "IMAGE",
        "photo.pdf": "IMAGE",
        "scan.pdf": "NO_TEXT",
        "pageless.pdf": "NO_PAGES",
        "archive.docx": "UNSUPPORTED",
        "short.txt": "NO_TEXT",
    }
    assert all(row["pulado_motivo"] and row["tentativas"] == 1 for row in found.values())
    assert "password" in found["encrypted.pdf"]["pulado_motivo"]
    assert chat.calls["answered"] == 0
