"""A client that calls a writer as the contract describes."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.eventually import eventually_async

KEY = "the-key-of-the-test"


class WriterClient:
    def __init__(self, url: str) -> None:
        self.http = httpx2.AsyncClient(
            base_url=url, headers={"x-api-key": KEY}, trust_env=False, timeout=30
        )

    async def post(
        self, source_url: str, *, job_id: str | None = None, config: Any = None, **source: Any
    ) -> httpx2.Response:
        body: dict[str, Any] = {
            "config": {"table": "ads", **(config or {})},
            "source": {"url": source_url, **source},
        }
        return await self.http.post("/process", json=body | ({"job_id": job_id} if job_id else {}))

    async def process(self, source_url: str, **options: Any) -> str:
        answer = await self.post(source_url, **options)
        assert answer.status_code == 200, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    async def status(self, job_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/status/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ended(self, job_id: str, *, within_seconds: float = 20.0) -> dict[str, Any]:
        async def ended() -> dict[str, Any] | None:
            job = await self.status(job_id)
            return job if job["status"] != "processing" else None

        job = await eventually_async(ended, within_seconds=within_seconds)
        assert job is not None
        return job

    async def run(self, source_url: str, **options: Any) -> dict[str, Any]:
        return await self.ended(await self.process(source_url, **options))
