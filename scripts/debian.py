"""Installs a Debian package for tests or benchmarks, as root on systems with apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def install(package: str, purpose: str) -> None:
    """Install the package, if possible; the caller checks that the program exists."""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return
    print(f"Installing {package} {purpose}.", file=sys.stderr)
    _apt_get("update", "-qq")
    _apt_get("install", "-y", "-qq", "--no-install-recommends", package)


def _apt_get(*words: str) -> None:
    # In runlevel 1 a package does not start its service.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", *words], check=False, stdout=subprocess.DEVNULL, env=environment)
