"""The author of what the command line does: the operating system's user."""

from __future__ import annotations

import os


def author() -> str:
    """By the process's user id: LOGNAME and the like are the caller's word. Root's SUDO_USER is
    believed, because root could do anything under any name."""
    uid = os.getuid()
    user = (os.environ.get("SUDO_USER") if uid == 0 else None) or _name_of(uid)
    return f"cli:{user}"[:100]


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a uid without a name
        return str(uid)


BY = author()
