"""Workers, proxies and writers over HTTP: added, edited, tested, switched, removed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from regente import Regente
from tests.api.conftest import Served, body_of, events_of
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter

CANARY = "canary-s3cr3t"
NEW: dict[str, dict[str, Any]] = {
    "workers": {
        "name": "w1",
        "url": "https://w.example.com",
        "api_key": CANARY,
        "storage_domain": "s.example.com",
    },
    "proxies": {
        "name": "p1",
        "host": "p.example.com",
        "port": 8080,
        "username": "u",
        "password": CANARY,
    },
    "writers": {"name": "x1", "url": "https://x.example.com", "api_key": CANARY},
}
SECRET = {"workers": "api_key", "proxies": "password", "writers": "api_key"}


@pytest.mark.parametrize("kind", list(NEW))
async def test_a_member_is_added_edited_switched_and_removed_and_its_secret_never_shown(
    api: Served, app: Regente, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """O18, O20: no response contains a secret."""
    told: list[str] = []

    async def call(method: str, path: str, status: int, body: Any = None) -> Any:
        answer = await api.admin.request(method, f"/api/{kind}{path}", json=body)
        told.append(answer.text)
        return body_of(answer, status)

    with caplog.at_level(logging.DEBUG):
        made = await call("POST", "", 201, NEW[kind])
        place = f"/{made['id']}"
        assert (await call("GET", place, 200))["name"] == NEW[kind]["name"]
        assert len(await call("GET", "", 200)) == 1
        await call("POST", "", 422, NEW[kind])
        edited = await call("PATCH", place, 200, {"name": "renamed", SECRET[kind]: f"{CANARY}-2"})
        assert edited["name"] == "renamed"
        assert (await call("POST", f"{place}/deactivate", 200))["active"] is False
        assert (await call("POST", f"{place}/activate", 200))["active"] is True
        await call("DELETE", place, 204)
        for method, path in (
            ("GET", place),
            ("POST", f"{place}/test"),
            ("DELETE", place),
            ("POST", f"{place}/activate"),
        ):
            await call(method, path, 404)
        await call("PATCH", place, 404, {"name": "x"})
        told.append((await api.admin.get("/api/events/export")).text)
    noted = await events_of(app, "operator_action")
    single = {"workers": "worker", "proxies": "proxy", "writers": "writer"}[kind]
    assert [one["action"] for one in noted] == [
        *(f"{kind}.{verb}" for verb in ("add", "edit", "deactivate", "activate", "remove")),
        "events.export",
    ]
    assert noted[1]["before"] == {"name": NEW[kind]["name"]}
    assert noted[1]["after"] == {"name": "renamed", SECRET[kind]: "•••"} | {}
    assert noted[0]["target"] == {single: made["id"]}
    lines = [str(vars(record)) for record in caplog.records]
    assert not [
        text
        for text in (*told, *lines, str([one.details for one in await app.feed()]))
        if CANARY in text
    ]


async def test_the_test_action_reports_whether_a_member_responds(api: Served, app: Regente) -> None:
    """O20: `last_test_at` and `last_test_ok`."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    async with worker.served() as worker_url, writer.served() as writer_url:
        ids = {
            "workers": await app.fleet.add_worker("w1", worker_url, API_KEY, "s.example.com"),
            "writers": await app.fleet.add_writer("x1", writer_url, API_KEY),
            "proxies": await app.fleet.add_proxy("p1", "127.0.0.1", 9),
        }
        verdicts = {
            kind: body_of(await api.operator.post(f"/api/{kind}/{one}/test"))
            for kind, one in ids.items()
        }
    assert [verdicts[kind]["ok"] for kind in ("workers", "writers", "proxies")] == [
        True,
        True,
        False,
    ]
    for kind, one in ids.items():
        shown = body_of(await api.viewer.get(f"/api/{kind}/{one}"))
        assert (shown["last_test_ok"], shown["last_test_at"] is not None) == (
            verdicts[kind]["ok"],
            True,
        )


async def test_invalid_addresses_are_refused(api: Served) -> None:
    """O20: bad input."""
    for body in (
        {**NEW["workers"], "url": "ftp://w.example.com"},
        {**NEW["workers"], "url": "https://user:pass@w.example.com"},
        {**NEW["workers"], "storage_domain": "a b"},
    ):
        problem = body_of(await api.admin.post("/api/workers", json=body), 422)
        assert problem["code"] == "INVALID_INPUT"
    assert (
        await api.admin.post("/api/proxies", json={**NEW["proxies"], "port": 70_000})
    ).status_code == 422
    assert (await api.viewer.get("/api/workers/not-an-id")).status_code == 422
