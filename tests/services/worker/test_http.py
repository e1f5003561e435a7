"""O21: each code of 9.3, with `{"error": {"code", "message"}}`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from regente.asgi.server import serving
from regente.contracts.worker import ProxyAddress
from regente.services.sandbox import FaultKind, Sandbox
from regente.services.worker import SourceSession, WorkerSettings, create_app
from tests.services.filters import filters, payload
from tests.services.worker.conftest import QUICK, Client, StartWorker, client_without_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTES = [
    ("POST", "/session"),
    ("GET", "/session/status"),
    ("DELETE", "/session"),
    ("POST", "/scrape"),
    ("GET", "/scrape/scrape_0"),
    ("POST", "/scrape/scrape_0/cancel"),
    ("GET", "/openapi.json"),
    ("GET", "/anything"),
]


def error(answer: httpx2.Response) -> tuple[int, str]:
    body = answer.json()["error"]
    assert body["message"]
    return answer.status_code, body["code"]


async def test_every_route_needs_the_key(worker: Client) -> None:
    async with client_without_key(worker.url) as client:
        for method, path in ROUTES:
            for key in (None, b"wrong", "chave-ção".encode()):
                headers = {b"x-api-key": key} if key else {}
                assert error(await client.request(method, path, headers=headers)) == (
                    401,
                    "unauthorized",
                ), path


async def test_health_needs_no_key(worker: Client) -> None:
    async with client_without_key(worker.url) as client:
        assert (await client.get("/health")).json() == {"status": "ok"}


async def test_unknown_jobs_and_routes_are_not_found(worker: Client) -> None:
    assert error(await worker.http.get("/scrape/scrape_00000000")) == (404, "job_not_found")
    assert error(await worker.http.get("/scrape/scrape_00000000?data=true")) == (
        404,
        "job_not_found",
    )
    assert error(await worker.http.post("/scrape/nothing/cancel")) == (404, "job_not_found")
    assert error(await worker.http.get("/nothing")) == (404, "not_found")
    assert error(await worker.http.put("/session")) == (405, "method_not_allowed")


async def test_a_body_that_is_not_json_is_a_bad_request(worker: Client) -> None:
    for body in (b"{", b"\xff", b"[" * 100_000):
        answer = await worker.http.post(
            "/scrape", content=body, headers={"content-type": "application/json"}
        )
        assert error(answer)[0] == 400, body[:10]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"filters": None}, "filters"),
        ({"filters": {"format": "audio"}}, "filters.format"),
        ({"filters": {"languages": []}}, "filters.languages"),
        (
            {"filters": {"date_range": {"start": "2025-01-02", "end": "2025-01-01"}}},
            "filters.date_range",
        ),
        (
            {"filters": {"date_range": {"start": "soon", "end": "2025-01-01"}}},
            "filters.date_range.start",
        ),
        ({"options": {"batch_size": 0}}, "options.batch_size"),
        ({"options": {"batch_size": True}}, "options.batch_size"),
        ({"options": {"batch_size": "5"}}, "options.batch_size"),
        ({"options": {"max_ads": True}}, "options.max_ads.int"),
    ],
)
async def test_a_wrong_field_is_named(worker: Client, change: dict[str, Any], field: str) -> None:
    body: dict[str, Any] = payload(filters())
    for part, values in change.items():
        body[part] = body[part] | values if values else values
    answer = await worker.http.post("/scrape", json=body)
    assert error(answer) == (422, "validation_failed")
    assert field in [one["field"] for one in answer.json()["error"]["fields"]]
    assert field in answer.json()["error"]["message"]


@pytest.mark.parametrize("poison", [r"\ud800", r"\u0000", "ção", "a,b", "pt\\n", "x" * 200_000, ""])
async def test_what_is_no_language_is_refused(worker: Client, poison: str) -> None:
    body = json.dumps(payload(filters(languages=("POISON",))), ensure_ascii=False).replace(
        "POISON", poison
    )
    answer = await worker.http.post(
        "/scrape", content=body.encode(), headers={"content-type": "application/json"}
    )
    assert error(answer) == (422, "validation_failed")
    assert answer.json()["error"]["fields"][0]["field"] == "filters.languages.0"


async def test_half_characters_in_a_proxy_are_refused(worker: Client) -> None:
    for field in ("server", "username", "password"):
        proxy = json.dumps({"server": "127.0.0.1:1", field: "POISON"}).replace(
            "POISON", r"a-canary\ud800"
        )
        body = f'{{"proxy": {proxy}}}'.encode()
        answer = await worker.http.post(
            "/session", content=body, headers={"content-type": "application/json"}
        )
        assert error(answer) == (422, "validation_failed")
        assert "canary" not in answer.text


async def test_a_refused_session_does_not_repeat_the_password(worker: Client) -> None:
    proxy = {"server": "", "password": "a-canary", "user": "x"}
    answer = await worker.http.post("/session", json={"proxy": proxy})
    assert error(answer) == (422, "validation_failed")
    assert "canary" not in answer.text


async def test_a_scrape_needs_a_session_that_is_ready(sandbox: Sandbox, worker: Client) -> None:
    answer = await worker.http.post("/scrape", json=payload(filters()))
    assert error(answer) == (400, "session_not_ready")
    assert "terminated" in answer.json()["error"]["message"]
    sandbox.break_with(FaultKind.HANG)
    await worker.post_session(sandbox.proxies[0])
    await worker.until_session("connecting")
    answer = await worker.http.post("/scrape", json=payload(filters()))
    assert error(answer) == (400, "session_not_ready")


async def test_a_busy_worker_says_when_to_come_back(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.HANG, path="/ads")
    job_id = await worker.start(filters())
    answer = await worker.http.post("/scrape", json=payload(filters()))
    assert error(answer) == (429, "busy")
    assert answer.headers["retry-after"] == "10"
    assert job_id in answer.json()["error"]["message"]


async def test_too_many_requests_are_refused_and_health_still_answers(
    start_worker: StartWorker,
) -> None:
    async with start_worker(requests_per_minute=50) as worker:
        answers = [await worker.http.get("/session/status") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        assert error(answers[-1]) == (429, "too_many_requests")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
        assert (await worker.http.get("/health")).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_ten_megabytes_are_refused(worker: Client, chunked: bool) -> None:
    body = json.dumps(payload(filters()) | {"filling": "x" * 10_000_000}).encode()

    async def pieces() -> Any:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    answer = await worker.http.post("/scrape", content=pieces() if chunked else body)
    assert error(answer) == (413, "body_too_large")
    assert (await worker.session()).status == "terminated"


class BrokenSource:
    """A source plug-in with mistakes."""

    def open(self, proxy: ProxyAddress | None) -> SourceSession:
        raise RuntimeError("a secret of the plug-in")


async def test_a_mistake_of_the_source_is_the_workers_problem(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    settings = WorkerSettings(**QUICK, data_dir=tmp_path, target=sandbox.library_url)
    async with serving(create_app(settings, source=BrokenSource())) as url:
        worker = Client(url)
        await worker.post_session(None)
        session = await worker.until_session("disconnected")
        assert session.problem is not None
        assert (session.problem.cause, "secret" in session.problem.message) == ("worker", False)
        await worker.http.aclose()


async def test_an_internal_error_shows_no_stack(sandbox: Sandbox, tmp_path: Path) -> None:
    settings = WorkerSettings(**QUICK, data_dir=tmp_path, target=sandbox.library_url)
    app = create_app(settings)

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError("a secret of the worker")

    async with serving(app) as url:
        worker = Client(url)
        answer = await worker.http.get("/broken")
        assert error(answer) == (500, "internal")
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
        await worker.http.aclose()


async def test_wrong_keys_do_not_lock_the_right_one_out(start_worker: StartWorker) -> None:
    """O21: guesses are slowed down, the client of the same address is not."""
    async with start_worker(requests_per_minute=600) as worker:
        wrong = {"x-api-key": "a-guess"}
        answers = [await worker.http.get("/session/status", headers=wrong) for _ in range(300)]
        assert {one.status_code for one in answers} == {401, 429}
        assert error(answers[-1]) == (429, "too_many_requests")
        assert (await worker.http.get("/session/status")).status_code == 200
