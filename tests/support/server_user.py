"""A process that uses the embedded server: acquires it, reports in JSON, obeys words on stdin."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from regente.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError


def main() -> None:
    try:
        server = EmbeddedPostgres.acquire(Path(os.fsdecode(sys.argv[1])))
    except EmbeddedPostgresError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    while True:
        print(json.dumps({"url": server.url, "postmaster": server.postmaster_pid}), flush=True)
        word = sys.stdin.readline().strip()
        if word != "ensure":
            break
        server.ensure_running()
    server.release()


if __name__ == "__main__":
    main()
