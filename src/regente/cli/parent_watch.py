"""Ends a child process when its parent has died: stdin is then closed, and SIGTERM follows."""

from __future__ import annotations

import os
import signal
import sys
import threading

VARIABLE = "REGENTE_LEASH"


def exit_with_parent() -> None:
    """Watch stdin if the parent asked for it by the environment; children don't inherit this."""
    if os.environ.pop(VARIABLE, None):
        threading.Thread(target=_watch_stdin, name="parent-watch", daemon=True).start()


def _watch_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
