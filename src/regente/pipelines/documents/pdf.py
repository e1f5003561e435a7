"""The text of a PDF. Runs in a child process, for a parser of hostile input may crash or never end;
only that process, and the fork server it comes from, has a use for what is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pypdfium2

from regente.engine.errors import Skip
from regente.pipelines.documents.extraction import Extracted, FileKind, extracted, skipped


def pdf_text(content: bytes, max_characters: int) -> Extracted:
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise _unreadable(error) from None
    with closing(document):
        pages: list[str] = []
        for text in _page_texts(document):
            pages.append(text)
            if sum(map(len, pages)) >= max_characters:
                break
        return extracted(FileKind.PDF, content, len(document), "\n\n".join(pages), max_characters)


def _page_texts(document: Any) -> Iterator[str]:
    """The texts of the readable pages; without any the document is skipped."""
    readable = 0
    for number in range(len(document)):
        try:
            with closing(document[number]) as page, closing(page.get_textpage()) as text:
                found: str = text.get_text_range()
        except pypdfium2.PdfiumError:
            continue
        readable += 1
        yield found
    if readable == 0:
        raise skipped("PDF_UNREADABLE", f"none of the PDF's {len(document):,} pages can be read")


def _unreadable(error: Exception) -> Skip:
    code = getattr(error, "err_code", None)
    if code == pypdfium2.raw.FPDF_ERR_PASSWORD:
        return skipped(
            "PDF_ENCRYPTED", "the PDF is encrypted: it cannot be read without its password"
        )
    if code == pypdfium2.raw.FPDF_ERR_SECURITY:
        return skipped("PDF_ENCRYPTED", "the PDF is encrypted in a way that is not supported")
    if (
        code == pypdfium2.raw.FPDF_ERR_SUCCESS
    ):  # nothing is wrong with it but that there is nothing in it
        return skipped("NO_PAGES", "the PDF has no pages")
    return skipped("PDF_UNREADABLE", f"the PDF is corrupt: {error}")
