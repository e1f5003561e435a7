"""Extractors that crash on purpose; a child process imports them by name."""

from __future__ import annotations

import os
import signal

from regente.pipelines.documents.extraction import Extracted
from regente.pipelines.documents.pdf import pdf_text

KILLED, EXITS = b"% killed", b"% exits"


def fragile(content: bytes, max_characters: int) -> Extracted:
    """Reads PDFs, and crashes on those that carry a mark."""
    if KILLED in content:
        os.kill(os.getpid(), signal.SIGKILL)
    if EXITS in content:
        os._exit(7)
    return pdf_text(content, max_characters)
