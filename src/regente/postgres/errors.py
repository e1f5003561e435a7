"""The error of the embedded server, whose message says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regente.engine.errors import RegenteError

if TYPE_CHECKING:
    from pathlib import Path

_LOG_TAIL_LINES = 15
_LOG_TAIL_BYTES = 8192

# The first match wins; the server's output stays below the advice.
_ADVICE = (
    ("No space left on device", "The disk is full: free some space and start again."),
    ("Check free disk space", "The disk is full: free some space and start again."),
    ("invalid permissions", "Give the folder back to its owner alone: chmod 700."),
    (
        "Permission denied",
        "The server's account may not use this folder: check the owner and the mode of its files.",
    ),
    (
        "Read-only file system",
        "The file system is read-only: set REGENTE_DATA_DIR to a folder that can be written.",
    ),
    (
        "could not create shared memory segment",
        "The kernel gave no shared memory: raise its limit or free memory.",
    ),
    (
        "could not look up effective user ID",
        "This uid has no entry in /etc/passwd, which initdb needs: add one.",
    ),
    (
        "Operation not supported",
        "This file system has no sockets or no sync: set REGENTE_DATA_DIR to a local disk.",
    ),
)


class EmbeddedPostgresError(RegenteError):
    code = "EMBEDDED_POSTGRES"


def explain(what_failed: str, output: str) -> EmbeddedPostgresError:
    """The error for a failed server program, with the advice that its output suggests."""
    output = "\n".join(output.splitlines()[-_LOG_TAIL_LINES:])
    advice = next((text for sign, text in _ADVICE if sign in output), "")
    parts = (what_failed, advice, f"Its last output was:\n{output}" if output else "")
    return EmbeddedPostgresError(" ".join(part for part in parts if part))


def log_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text
