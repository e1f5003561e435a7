"""A leash for child processes: when whoever holds the other end of stdin is gone, they end as if
told to."""

from __future__ import annotations

import os
import signal
import sys
import threading

VARIABLE = "REGENTE_LEASH"


def exit_with_parent() -> None:
    """Only where the parent asked for it by the environment; not passed on."""
    if os.environ.pop(VARIABLE, None):
        threading.Thread(target=_wait_for_the_end, name="leash", daemon=True).start()


def _wait_for_the_end() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
