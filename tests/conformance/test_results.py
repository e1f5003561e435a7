"""The result document: its URL, and its number of ads."""

from __future__ import annotations

import json

import httpx2
import pytest
from fastapi import FastAPI, Response

from regente.asgi.server import serving
from regente.conformance.checks import CheckFailed
from regente.conformance.results import count_ads, result_url


@pytest.mark.parametrize(
    ("domain", "url"),
    [
        ("storage.example.com", "https://storage.example.com/scrape_1/scrape_1_results.json"),
        (
            "http://127.0.0.1:8080/storage/",
            "http://127.0.0.1:8080/storage/scrape_1/scrape_1_results.json",
        ),
    ],
)
def test_the_formula(domain: str, url: str) -> None:
    """O9: https by default; a domain with a scheme stays as it is."""
    assert result_url(domain, "scrape_1") == url


def test_a_job_id_stays_within_its_folder() -> None:
    assert result_url("host", "../a b") == "https://host/..%2Fa%20b/..%2Fa%20b_results.json"


async def count(body: str, status: int = 200) -> int:
    app = FastAPI()
    app.add_api_route(
        "/results.json",
        lambda: Response(body, status, media_type="application/json"),
        methods=["GET"],
    )
    async with serving(app) as url, httpx2.AsyncClient(trust_env=False) as client:
        return await count_ads(client, f"{url}/results.json", within_seconds=5)


@pytest.mark.parametrize(
    ("document", "ads"),
    [
        ({"ads": []}, 0),
        ({"ads": [{"ads": [1, 2]}, [1, [2]], "text", None, 5]}, 5),
        ({"meta": {"ads": [1]}, "ads": [{}]}, 1),
    ],
)
async def test_ads_are_counted_as_they_come(document: object, ads: int) -> None:
    """O9: counts the items of the top array only, of any type."""
    assert await count(json.dumps(document)) == ads


async def test_a_long_document_is_counted() -> None:
    assert (
        await count(
            json.dumps({"ads": [{"id": str(number), "text": "ação"} for number in range(20_000)]})
        )
        == 20_000
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("[]", "without an `ads` array"),
        ('{"ads": {"a": 1}}', "without an `ads` array"),
        ('{"ads": [1, 2', "not JSON"),
        ('{"ads": []} and more', "not JSON"),
        ("<html>", "not JSON"),
        ("", "not JSON"),
    ],
)
async def test_what_is_no_result_is_named(body: str, said: str) -> None:
    """O9: cut, empty, HTML or another shape."""
    with pytest.raises(CheckFailed, match=said):
        await count(body)


async def test_a_missing_result_is_named() -> None:
    with pytest.raises(CheckFailed, match="404"):
        await count("{}", 404)
