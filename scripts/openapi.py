"""Compares tests/api/openapi.json with the API, so that every change of it is reviewed.

python scripts/openapi.py           exit with 1 if the file is stale
python scripts/openapi.py --write   write it
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from regente.api.app import create_app
from regente.app import Regente

PAGE = Path(__file__).resolve().parent.parent / "tests" / "api" / "openapi.json"


def document() -> str:
    """The OpenAPI document; it needs no database."""
    found = create_app(Regente("postgresql://nowhere")).openapi()
    found["info"]["version"] = "0"  # a release changes nothing for callers
    return json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    now = document()
    if "--write" in sys.argv:
        PAGE.write_text(now, "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != now:
        print("tests/api/openapi.json is stale: run `python scripts/openapi.py --write`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
