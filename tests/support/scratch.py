"""Puts the tests' servers and folders into memory where enough is free.

Every test's database is copied from a template, hundreds of files each; on some disks that took
more time than the tests.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 * 1024**3
MACHINE_BYTES = 16 * 1024**3


def keep_in_memory() -> None:
    """Sets TMPDIR for this process and its children, unless it is set already."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def _has_room() -> bool:
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return machine_bytes >= MACHINE_BYTES and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
