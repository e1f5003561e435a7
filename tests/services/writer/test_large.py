"""Many rows with a few bad ones: exactly those are reported, and memory stays bounded."""

from __future__ import annotations

import json
import random

import pytest

from tests.services.writer.client import WriterClient
from tests.services.writer.conftest import Sql
from tests.services.writer.source_server import SourceServer, Visit, ad
from tests.services.writer.writer_process import WriterProcess

MEMORY_MEGABYTES = 150


@pytest.mark.parametrize("count", [50_000, pytest.param(500_000, marks=pytest.mark.long)])
async def test_exactly_the_bad_rows_are_reported(
    database_url: str, source: SourceServer, sql: Sql, count: int
) -> None:
    """O22, I10: 100 bad rows of all kinds; everything else is stored; less than 150 MB resident."""
    bad = set(random.Random(3).sample(range(count), 100))

    async def stream(visit: Visit) -> None:
        await visit.head(content_type="application/json")
        await visit.send(b'{"ads":[')
        for start in range(0, count, 1_000):
            rows = (
                json.dumps(_row(number, bad), ensure_ascii=False)
                for number in range(start, start + 1_000)
            )
            await visit.send((("," if start else "") + ",".join(rows)).encode())
        await visit.send(b"]}")

    with WriterProcess(database_url) as process:
        writer = WriterClient(process.url)
        async with writer.http:
            job = await writer.ended(
                await writer.process(source.on("/big", stream)), within_seconds=count / 1_000
            )
        peak = process.peak_megabytes()
    assert job["status"] == "partial"
    assert {item["index"] for item in job["failed_items"]} == bad
    assert job["progress"]["success_count"] == count - 100
    assert sql.execute("SELECT count(*) FROM public.ads").fetchone() == {"count": count - 100}
    assert peak < MEMORY_MEGABYTES


def _row(number: int, bad: set[int]) -> object:
    padding = f"{number} " + "anúncio " * 12
    if number not in bad:
        return ad(number, url=f"https://library.example.com/{number}", text=padding)
    kinds = [
        ad(number, qtd_ads="x"),
        ad(number, started_on="2025-02-30"),
        {"text": "no id"},
        ad(number, text="\0"),
        17,
    ]
    return kinds[number % len(kinds)]
