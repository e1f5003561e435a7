"""Keys with scopes reach these resources only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.queries import LimitedDatabase
from regente.engine.errors import NotFound
from tests.api.conftest import Served, body_of
from tests.api.oidc.conftest import new_browser
from tests.api.test_serve import said


async def made(api: Served, **fields: Any) -> dict[str, str]:
    answer = await api.admin.post("/api/keys", json={"name": "scoped", **fields})
    found = body_of(answer, 201)
    assert found["scopes"] == sorted(fields["scopes"])
    return {"x-api-key": found["api_key"]}


async def test_a_key_reaches_the_resources_of_its_scopes(api: Served) -> None:
    """O18: with any role, and also with its session."""
    key = await made(api, role="operator", scopes=["tasks", "metrics"])
    for path, status in (
        ("/api/tasks", 200),
        ("/metrics", 200),
        ("/api/session", 200),
        ("/api/missions", 403),
        ("/api/events", 403),
        ("/api/stream", 403),
    ):
        assert (await api.anonymous.get(path, headers=key)).status_code == status, path
    stopped = await api.anonymous.post("/api/orchestrator/stop", headers=key)
    assert "scope orchestrator" in body_of(stopped, 403)["detail"]
    async with new_browser(api.url) as browser:
        body_of(await browser.post("/api/session", json={"api_key": key["x-api-key"]}), 201)
        assert (await browser.get("/api/tasks")).status_code == 200
        assert (await browser.get("/api/missions")).status_code == 403


async def test_an_admins_key_with_scopes_is_no_way_to_all_of_them(
    api: Served, app: Regente
) -> None:
    """O18: it makes no keys or links, and is not the admin that must remain."""
    key = await made(api, role="admin", scopes=["settings"])
    assert (await api.anonymous.get("/api/settings", headers=key)).status_code == 200
    for path in ("/api/keys", "/api/people"):
        assert (await api.anonymous.get(path, headers=key)).status_code == 403
    body = {"name": "more", "role": "admin"}
    assert (await api.anonymous.post("/api/keys", json=body, headers=key)).status_code == 403
    admin = next(one for one in body_of(await api.admin.get("/api/keys")) if one["role"] == "admin")
    assert admin["scopes"] is None
    assert (await api.admin.delete(f"/api/keys/{admin['id']}")).status_code == 409
    with pytest.raises(NotFound):
        await ApiKeys(LimitedDatabase(app.database)).find("more")


@pytest.mark.parametrize("scopes", [["keys"], ["people"], ["nothing"], ["session"], [""], "tasks"])
async def test_what_is_no_scope_is_refused(api: Served, scopes: Any) -> None:
    """O18: a typing error would make a key that reaches nothing."""
    body = {"name": "scoped", "role": "viewer", "scopes": scopes}
    assert (await api.admin.post("/api/keys", json=body)).status_code == 422


async def test_the_command_line_makes_keys_with_scopes(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: regente keys create --scope."""
    words = ("keys", "create", "scraper", "--scope", "metrics", "--scope", "stats")
    code, found = await said(capsys, database_url, *words)
    assert (code, found["scopes"]) == (0, ["metrics", "stats"])
    code, listed = await said(capsys, database_url, "keys", "list")
    assert [one["scopes"] for one in listed] == [["metrics", "stats"]]
    code, answer = await said(capsys, database_url, "keys", "create", "x", "--scope", "keys")
    assert (code, answer["error"]["code"]) == (2, "INVALID_INPUT")
    assert "metrics" in json.dumps(answer)
