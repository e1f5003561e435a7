"""The machine that the results were measured on."""

import os
import platform
import subprocess
from pathlib import Path

from scripts.console import CannotBuild, npm_here


def describe() -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Node": _node(),
        "revision": _revision(),
    }


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _revision() -> str:
    """The measured commit; empty outside a clone."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    ).stdout.strip()


def _node() -> str:
    try:
        _, variables = npm_here()
    except CannotBuild:
        return "not installed"
    return subprocess.run(
        ["node", "--version"], check=True, capture_output=True, text=True, env=variables
    ).stdout.strip()
