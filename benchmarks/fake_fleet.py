"""Many fake workers and one fake writer on one port, as cheap as possible.

`/w/<n>/…` is worker n. Every session is ready at once; a job lasts `--job-seconds`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from typing import Any

import uvicorn

from regente.asgi.sockets import listen

_numbers = itertools.count(1)


class FakeFleet:
    def __init__(self, job_seconds: float) -> None:
        self._job_seconds = job_seconds
        self._ends_at: dict[str, float] = {}
        self._keys: dict[str, str] = {}
        self._at: dict[str, str] = {}
        self.requests = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        self.requests += 1
        status, answer = self._answer(scope["method"], scope["path"], dict(scope["headers"]))
        body = json.dumps(answer).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str, headers: dict[bytes, bytes]) -> tuple[int, Any]:
        if path.startswith("/w/"):
            _, _, worker, rest = path.split("/", 3)
            return self._worker(method, worker, rest, headers)
        if path == "/writer/process":
            return 200, {"job_id": f"job-{next(_numbers)}", "status": "processing"}
        if path.startswith("/writer/status/"):
            counts = {"total": 3, "processed": 3, "success_count": 3, "failed_count": 0}
            return 200, {
                "job_id": path.rsplit("/", 1)[1],
                "status": "completed",
                "progress": counts,
                "failed_items": [],
            }
        return 200, {"requests": self.requests}

    def _worker(
        self, method: str, worker: str, rest: str, headers: dict[bytes, bytes]
    ) -> tuple[int, Any]:
        now = time.monotonic()
        if rest == "session/status":
            job = self._at.get(worker)
            if job is not None and self._ends_at[job] > now:
                return 200, {"status": "scraping", "job_id": job, "job_key": self._keys[job]}
            return 200, {"status": "ready"}
        if rest == "scrape":
            job = f"scrape_{next(_numbers):08x}"
            self._ends_at[job] = now + self._job_seconds
            self._keys[job] = headers.get(b"idempotency-key", b"").decode()
            self._at[worker] = job
            return 200, {"job_id": job}
        if rest.startswith("scrape/") and method == "GET":
            ends_at = self._ends_at.get(rest.split("/")[1], 0.0)
            return 200, {"status": "completed", "ads_count": 3} if ends_at <= now else {
                "status": "running",
                "ads_count": 1,
            }
        return 200, {}


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--job-seconds", type=float, default=0.0)
    options = parser.parse_args()
    listener = listen("127.0.0.1", options.port)
    config = uvicorn.Config(
        FakeFleet(options.job_seconds), log_level="warning", access_log=False, lifespan="off"
    )
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
