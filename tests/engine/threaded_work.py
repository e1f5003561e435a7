"""Functions for isolated steps in a module that starts a thread when it is imported."""

from __future__ import annotations

import threading

_never = threading.Event()
threading.Thread(target=_never.wait, daemon=True).start()


def threads() -> int:
    """Threads of this process, without the one that watches the parent."""
    return threading.active_count() - 1
