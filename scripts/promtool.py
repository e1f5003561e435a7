"""Finds the promtool that tests the alert rules; installs it on Debian, as root.

python scripts/promtool.py    print its path, or how to install it and exit with 1
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import debian  # noqa: E402

HOW = (
    "There is no promtool here: install it (apt-get install prometheus), or set REGENTE_PROMTOOL "
    "to its path."
)


def find() -> str | None:
    return os.environ.get("REGENTE_PROMTOOL") or shutil.which("promtool")


def main() -> int:
    if not find():
        debian.install("prometheus", "for the tests of the alert rules")
    found = find()
    print(found or HOW, file=sys.stdout if found else sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
