"""Keys, sessions, links, CSRF, rate limits and headers."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx2
import psycopg
import pytest

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.access.sessions import COOKIE, ConsoleSessions
from regente.api.app import create_app
from regente.api.config import ApiConfig
from regente.api.queries import QUERIES, LimitedDatabase
from regente.asgi.server import serving
from regente.engine.errors import IllegalTransition
from tests.api.conftest import Served, body_of, events_of, with_config
from tests.support.eventually import eventually_async


async def test_a_key_is_shown_once_stored_as_a_hash_and_revoked_at_once(api: Served) -> None:
    """O18: keys."""
    made = body_of(await api.admin.post("/api/keys", json={"name": "ana", "role": "operator"}), 201)
    assert made["api_key"].startswith("rg_")
    assert len(made["api_key"]) >= 40
    ana = {"x-api-key": made["api_key"]}
    assert (body_of(await api.anonymous.get("/api/session", headers=ana))) == {
        "name": "ana",
        "role": "operator",
        "via": "key",
        "csrf_token": None,
    }
    listed = (await api.admin.get("/api/keys")).text
    assert made["api_key"] not in listed
    assert made["api_key"][:11] in listed
    assert (await api.admin.delete(f"/api/keys/{made['id']}")).status_code == 204
    assert (await api.anonymous.get("/api/session", headers=ana)).status_code == 401
    async with api.app.database.connection() as connection:
        rows = await (
            await connection.execute(b"SELECT k::text FROM regente.api_keys k")
        ).fetchall()
    assert made["api_key"] not in str(rows)
    noted = await events_of(api.app, "operator_action")
    done, denied = noted[:2], noted[2:]
    assert [one["action"] for one in done] == ["keys.create", "keys.revoke"]
    assert {one["by"] for one in done} == {"the-admin"}
    assert [one["action"] for one in denied] == ["access.denied"]
    assert made["api_key"] not in str(noted)


async def test_keys_expire_names_are_unique_and_the_last_admin_stays(api: Served) -> None:
    """O18: keys."""
    ring = ApiKeys(LimitedDatabase(api.app.database))
    soon = await ring.create(
        "soon", Role.VIEWER, by="test", expires_at=datetime.now(UTC) + timedelta(seconds=0.3)
    )
    headers = {"x-api-key": soon.secret}
    while (await api.anonymous.get("/api/session", headers=headers)).status_code == 200:
        pass
    twice = await api.admin.post("/api/keys", json={"name": "the-viewer", "role": "viewer"})
    assert (body_of(twice, 409))["code"] == "ILLEGAL_TRANSITION"
    past = {"name": "past", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}
    assert (await api.admin.post("/api/keys", json=past)).status_code == 422
    (admin,) = [key for key in body_of(await api.admin.get("/api/keys")) if key["role"] == "admin"]
    assert (await api.admin.delete(f"/api/keys/{admin['id']}")).status_code == 409


async def test_a_sign_in_link_works_once_and_its_session_needs_the_csrf_header(api: Served) -> None:
    """O18: how the console signs in."""
    (key,) = [one for one in body_of(await api.admin.get("/api/keys")) if one["role"] == "operator"]
    link = body_of(await api.admin.post(f"/api/keys/{key['id']}/sign-in-link"), 201)
    page, _, token = link["url"].partition("#token=")
    assert page == f"{api.url}/sign-in"
    async with httpx2.AsyncClient(
        base_url=api.url, trust_env=False, timeout=60, verify=False
    ) as browser:
        answer = await browser.post("/api/session", json={"token": token})
        session = body_of(answer, 201)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert session["name"] == "the-operator"
        assert (await browser.get("/api/missions")).status_code == 200
        refused = body_of(await browser.post("/api/orchestrator/stop"), 403)
        assert refused["code"] == "CSRF_REQUIRED"
        wrong = await browser.post("/api/orchestrator/stop", headers={"x-csrf-token": "0" * 64})
        assert wrong.status_code == 403
        csrf = {"x-csrf-token": session["csrf_token"]}
        assert (body_of(await browser.get("/api/session")))["csrf_token"] == session["csrf_token"]
        assert (await browser.post("/api/orchestrator/stop", headers=csrf)).status_code == 200
        assert (await browser.delete("/api/session", headers=csrf)).status_code == 204
        browser.cookies.set(COOKIE, answer.cookies[COOKIE])
        assert (await browser.get("/api/missions")).status_code == 401
    assert (await api.anonymous.post("/api/session", json={"token": token})).status_code == 401


async def test_a_session_ends_with_its_key(api: Served) -> None:
    """O18: a revoked key ends its sessions at once."""
    made = body_of(await api.admin.post("/api/keys", json={"name": "ana", "role": "viewer"}), 201)
    async with httpx2.AsyncClient(
        base_url=api.url, trust_env=False, timeout=60, verify=False
    ) as browser:
        body_of(await browser.post("/api/session", json={"api_key": made["api_key"]}), 201)
        assert (await browser.get("/api/missions")).status_code == 200
        await api.admin.delete(f"/api/keys/{made['id']}")
        assert (await browser.get("/api/missions")).status_code == 401


async def test_the_first_start_makes_one_admin_key_and_only_one(app: Regente) -> None:
    """O18: the first start."""
    ring = ApiKeys(LimitedDatabase(app.database))
    first = await ring.first()
    assert first is not None
    assert first.role is Role.ADMIN
    assert first.secret not in repr(first)
    assert await ring.first() is None
    sessions = ConsoleSessions(LimitedDatabase(app.database), ApiConfig())
    link = await sessions.new_link(first.id, by="test")
    assert link.token not in repr(link)


@with_config(requests_per_second=0.001, request_burst=3)
async def test_each_key_has_its_own_rate_limit(api: Served) -> None:
    """O18: a script over its limit does not slow down others."""
    answers = [await api.viewer.get("/api/health-not") for _ in range(5)]
    assert [one.status_code for one in answers] == [404, 404, 404, 429, 429]
    assert answers[-1].json()["code"] == "RATE_LIMITED"
    assert int(answers[-1].headers["retry-after"]) > 1
    assert (await api.operator.get("/api/orchestrator")).status_code == 200
    assert (await api.anonymous.get("/api/health")).status_code == 200


@with_config(wrong_keys_per_second=0.001, wrong_key_burst=3)
async def test_an_address_that_guesses_keys_is_slowed_down(api: Served) -> None:
    """O18: rate limit for wrong keys."""
    wrong = {"x-api-key": "rg_" + "A" * 43}
    assert [
        (await api.anonymous.get("/api/missions", headers=wrong)).status_code for _ in range(5)
    ] == [401, 401, 401, 429, 429]
    assert (await api.anonymous.post("/api/session", json={"token": "x"})).status_code == 429
    assert (await api.viewer.get("/api/missions")).status_code == 200


async def test_every_answer_has_the_security_headers(api: Served) -> None:
    """O18: headers."""
    for answer in (
        await api.anonymous.get("/api/missions"),
        await api.viewer.get("/docs"),
        await api.viewer.get("/api/missions"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "'unsafe-inline'" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


@with_config(authentication=False)
async def test_without_authentication_only_local_names_and_our_own_pages_are_served(
    api: Served,
) -> None:
    """O18: other sites cannot reach it through a local browser."""
    assert (await api.anonymous.get("/api/session")).json()["role"] == "admin"
    for host in (
        "evil.example.com",
        "localhost.evil.example.com",
        "[",
        "127.0.0.1@evil.example.com",
    ):
        assert (
            await api.anonymous.get("/api/missions", headers={"host": host})
        ).status_code == 401, host
    foreign = await api.anonymous.post(
        "/api/orchestrator/stop", headers={"origin": "https://evil.example.com"}
    )
    assert foreign.status_code == 403
    own = await api.anonymous.post("/api/orchestrator/stop", headers={"origin": api.url})
    assert own.status_code == 200


async def test_it_works_under_a_prefix_that_a_proxy_may_strip(app: Regente) -> None:
    """O18: behind a proxy."""
    made = await ApiKeys(LimitedDatabase(app.database)).create("ana", Role.VIEWER, by="test")
    config = ApiConfig(path_prefix="/regente")
    async with (
        serving(create_app(app, config), drain_seconds=0) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60, verify=False) as client,
    ):
        key = {"x-api-key": made.secret}
        for path in ("/regente/api/missions", "/api/missions"):
            assert (await client.get(path)).status_code == 401
            assert (await client.get(path, headers=key)).status_code == 200
        document = (await client.get("/regente/openapi.json", headers=key)).json()
        assert document["servers"] == [{"url": "/regente"}]
        answer = await client.post("/regente/api/session", json={"api_key": made.secret})
        assert "Path=/regente" in answer.headers["set-cookie"]


async def test_no_key_reaches_the_log(api: Served, caplog: pytest.LogCaptureFixture) -> None:
    """S7, O18: log lines name the key's owner and the request, never the key."""
    with caplog.at_level(logging.DEBUG):
        made = body_of(
            await api.admin.post("/api/keys", json={"name": "ana", "role": "viewer"}), 201
        )
        await api.anonymous.post("/api/session", json={"api_key": made["api_key"]})
        await api.anonymous.get(
            "/api/missions", headers={"x-api-key": made["api_key"], "x-request-id": "trace-1"}
        )
    lines = [vars(record) for record in caplog.records]
    assert made["api_key"] not in str(lines)
    (line,) = [one for one in lines if one.get("request_id") == "trace-1"]
    assert (line["by"], line["status"], line["path"]) == ("ana", 200, "/api/missions")


async def test_of_two_revocations_of_the_last_admins_one_is_refused(
    app: Regente, database_url: str
) -> None:
    """O18: the second waits for the first, and sees that its key is the last."""
    ring = ApiKeys(LimitedDatabase(app.database))
    first, second = [await ring.create(name, Role.ADMIN, by="test") for name in ("a", "b")]
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute(QUERIES["revoke_key"], {"id": first.id, "by": "test"})
        waiting = asyncio.create_task(ring.revoke(second.id, by="test"))
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as beside:
            await eventually_async(partial(_is_waiting, beside))
        await holder.commit()
    with pytest.raises(IllegalTransition, match="last valid admin"):
        await waiting


async def _is_waiting(connection: psycopg.AsyncConnection[Any]) -> bool:
    found = await connection.execute(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return found.rowcount > 0
