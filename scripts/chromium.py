"""Finds the Chromium of the browser tests and screenshots; installs it on Debian, as root.

python scripts/chromium.py    print its path, or how to install it and exit with 1
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import debian  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ON_MACOS = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
HOW = (
    "There is no Chromium here: install it (apt-get install chromium, or Google Chrome), or "
    "set REGENTE_CHROMIUM to its path."
)


def find() -> str | None:
    given = os.environ.get("REGENTE_CHROMIUM")
    if given:
        return given
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or (str(ON_MACOS) if ON_MACOS.exists() else None)


def main() -> int:
    if not find():
        debian.install("chromium", "for the tests in a browser")
    found = find()
    print(found or HOW, file=sys.stdout if found else sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
