"""People sign in with a certified OpenID Connect provider, in the way of a browser."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import psycopg
import pytest

from regente import Regente
from regente.api.access.cookies import SIGN_IN
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.access.sessions import COOKIE
from regente.api.queries import LimitedDatabase
from tests.api.conftest import body_of, events_of
from tests.api.oidc.conftest import ANA, Office, free_port, new_browser, regente_at, with_oidc
from tests.api.oidc.openid_provider import openid_provider
from tests.api.stream.sse import next_named, stream
from tests.support.eventually import eventually_async


def problem_in(answer: httpx2.Response) -> str:
    """The problem that the sign-in page explains."""
    assert answer.status_code == 303
    target = urlsplit(answer.headers["location"])
    assert target.path == "/sign-in"
    return parse_qs(target.query)["problem"][0]


async def test_a_person_signs_in_and_has_the_role_of_their_claim(office: Office) -> None:
    """O18: the whole way, and what events say of it."""
    (offered,) = body_of(await office.browser.get("/api/session/providers"))
    assert offered == {"name": "Test login", "url": f"{office.url}/api/session/oidc"}
    answer = await office.sign_in("ana", page="/missions?statuses=failed")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{office.url}/missions?statuses=failed"
    session = await office.session()
    assert session is not None
    assert (session["name"], session["role"]) == ("oidc:ana@example.com", "operator")
    csrf = {"x-csrf-token": session["csrf_token"]}
    assert (await office.browser.post("/api/orchestrator/stop")).status_code == 403
    assert (await office.browser.post("/api/orchestrator/stop", headers=csrf)).is_success
    assert (await office.browser.get("/api/keys")).status_code == 403
    noted = await events_of(office.app, "operator_action")
    assert [(one["by"], one["action"]) for one in noted] == [
        ("oidc:ana@example.com", "session.finish_sign_in"),
        ("oidc:ana@example.com", "access.denied"),
        ("oidc:ana@example.com", "orchestrator.stop"),
        ("oidc:ana@example.com", "access.denied"),
    ]
    assert {one["address"] for one in noted} == {"127.0.0.1"}
    assert all(one["person_id"].startswith("usr_") for one in noted)
    assert "code" not in noted[0]["target"]


async def test_who_queued_a_mission_is_the_person(office: Office, database_url: str) -> None:
    """O18, S7: in the events of what they do."""
    await office.sign_in("ana")
    session = await office.session()
    assert session is not None
    day = {"date_start": "2025-01-15", "date_end": "2025-01-15", "media_type": "video"}
    made = await office.browser.post(
        "/api/missions",
        json={"missions": [{**day, "languages": ["pt"]}], "queue": True},
        headers={"x-csrf-token": session["csrf_token"]},
    )
    assert made.is_success, made.text
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        found = await connection.execute(
            "SELECT details ->> 'queued_by' FROM regente.mission_logs "
            "WHERE event = 'mission_queued'"
        )
        assert await found.fetchall() == [("oidc:ana@example.com",)]


async def test_the_cookies_are_for_this_browser_only(office: Office) -> None:
    """O18: HttpOnly; the session's is strict, that of the sign-in lives for minutes."""
    begun = await office.browser.get("/api/session/oidc")
    cookie = begun.headers["set-cookie"]
    assert cookie.startswith(f"{SIGN_IN}=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=600" in cookie
    sent = parse_qs(urlsplit(begun.headers["location"]).query)
    assert sent["code_challenge_method"] == ["S256"]
    assert sent["redirect_uri"] == [f"{office.url}/api/session/oidc/callback"]
    for secret in (sent["state"][0], sent["nonce"][0]):
        assert secret not in cookie
        assert len(secret) >= 43
    answer = await office.sign_in("ana")
    session = next(
        one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{COOKIE}=")
    )
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert SIGN_IN not in office.browser.cookies


@with_oidc(
    claims_in_id_token=True, role_claim="realm_access.roles", roles=((Role.VIEWER, "night shift"),)
)
async def test_roles_are_mapped_also_from_nested_claims_of_the_id_token(office: Office) -> None:
    """O18: as Keycloak sends them."""
    await office.sign_in("ana")
    session = await office.session()
    assert session is not None
    assert session["role"] == "viewer"


@with_oidc(client_secret=None)
async def test_a_public_client_needs_no_secret(office: Office) -> None:
    """O18: PKCE protects the code."""
    await office.sign_in("ana")
    assert await office.session() is not None


async def test_a_person_without_a_role_is_refused_and_it_is_audited(office: Office) -> None:
    """O18: signed in at the provider is not enough."""
    office.provider.know(bob={"email": "bob@example.com", "roles": ["guest"]})
    answer = await office.sign_in("bob")
    assert problem_in(answer) == "no_role"
    assert await office.session() is None
    (noted,) = await events_of(office.app, "operator_action")
    assert (noted["by"], noted["action"]) == ("oidc:bob@example.com", "session.failed")
    assert noted["address"] == "127.0.0.1"
    assert "gives no role" in noted["reason"]


@with_oidc(default_role=Role.VIEWER)
async def test_a_default_role_is_for_everyone_else(office: Office) -> None:
    """O18: if the operator wants it."""
    office.provider.know(bob={"email": "bob@example.com"})
    await office.sign_in("bob")
    session = await office.session()
    assert session is not None
    assert session["role"] == "viewer"


async def test_the_role_is_read_anew_at_each_sign_in_and_holds_for_all_sessions(
    office: Office,
) -> None:
    """O18: a role that is lowered or lost at the provider."""
    await office.sign_in("ana")
    async with new_browser(office.url) as second, stream(office.browser) as source:
        await next_named(source, "heartbeat")
        office.provider.know(ana={**ANA, "roles": ["viewer"]})
        await office.sign_in("ana", second)
        assert (await office.session() or {})["role"] == "viewer"
        async with asyncio.timeout(30):  # the stream begins anew with the new role
            await anext((frame async for frame in source if frame.name == "never"), None)
    async with new_browser(office.url) as third:
        office.provider.know(ana={**ANA, "roles": []})
        assert problem_in(await office.sign_in("ana", third)) == "no_role"
        assert await office.session() is None


async def test_signing_out_ends_the_session_at_the_provider_too(
    office: Office, database_url: str
) -> None:
    """O18: RP-initiated logout, with the ID token as a hint, which is stored encrypted."""
    await office.sign_in("ana")
    session = await office.session()
    assert session is not None
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        stored = await (
            await connection.execute("SELECT id_token FROM regente.api_sessions")
        ).fetchone()
    assert stored is not None
    assert b"eyJ" not in bytes(stored[0])
    answer = await office.browser.delete(
        "/api/session", headers={"x-csrf-token": session["csrf_token"]}
    )
    target = urlsplit(body_of(answer, 200)["url"])
    assert f"{target.scheme}://{target.netloc}" == office.provider.issuer
    sent = parse_qs(target.query)
    assert sent["post_logout_redirect_uri"] == [f"{office.url}/sign-in"]
    assert sent["id_token_hint"][0].startswith("eyJ")
    assert (await office.browser.get(target.geturl())).status_code == 200
    assert await office.session() is None


async def test_a_person_sees_and_ends_their_sessions_and_an_admin_ends_anyones(
    office: Office,
) -> None:
    """O18: also those of people."""
    await office.sign_in("ana")
    async with new_browser(office.url) as lost:
        await office.sign_in("ana", lost)
        csrf = {"x-csrf-token": (await office.session() or {})["csrf_token"]}
        listed = body_of(await office.browser.get("/api/session/all"))
        assert [one["current"] for one in listed] == [True, False]
        ended = office.browser.delete(f"/api/session/all/{listed[1]['id']}", headers=csrf)
        assert (await ended).status_code == 204
        assert await office.session(lost) is None
    admin = await ApiKeys(LimitedDatabase(office.app.database)).create(
        "root", Role.ADMIN, by="test"
    )
    key = {"x-api-key": admin.secret}
    async with new_browser(office.url) as script:
        (person,) = body_of(await script.get("/api/people", headers=key))
        assert (person["name"], person["role"], person["sessions"]) == (
            "oidc:ana@example.com",
            "operator",
            1,
        )
        path = f"/api/people/{person['id']}/sessions"
        assert (await script.delete(path, headers=key)).status_code == 204
    assert await office.session() is None


async def test_after_a_rotation_new_keys_are_believed_and_old_ones_not(app: Regente) -> None:
    """O18: at once, without a restart of Regente."""
    port, provider_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    async with regente_at(app, port, f"http://localhost:{provider_port}"):
        for _ in range(2):  # each start of the provider has a key of its own
            async with (
                openid_provider(url, port=provider_port) as provider,
                new_browser(url) as browser,
            ):
                provider.know(ana=ANA)
                office = Office(url, app, provider, browser)
                await office.sign_in("ana")
                assert await office.session() is not None


async def test_it_works_under_a_path_prefix(app: Regente) -> None:
    """O18: behind a proxy, with the public URL's own path."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/regente"
    async with (
        openid_provider(url) as provider,
        regente_at(app, port, provider.issuer, changes={"public_url": url}, path_prefix="/regente"),
        new_browser(url) as browser,
    ):
        provider.know(ana=ANA)
        office = Office(url, app, provider, browser)
        answer = await office.sign_in("ana", page="/missions")
        assert answer.headers["location"] == f"{url}/missions"
        assert all("Path=/regente" in one for one in answer.headers.get_list("set-cookie"))
        assert await office.session() is not None


async def test_without_the_provider_keys_still_work(app: Regente) -> None:
    """O18: a clear answer, and the other ways in."""
    port = free_port()
    made = await ApiKeys(LimitedDatabase(app.database)).create("ana", Role.VIEWER, by="test")
    async with (
        regente_at(app, port, f"http://localhost:{free_port()}") as url,
        new_browser(url) as browser,
    ):
        begun = await browser.get("/api/session/oidc")
        assert problem_in(begun) == "provider_unavailable"
        signed_in = await browser.post("/api/session", json={"api_key": made.secret})
        assert signed_in.status_code == 201


async def test_a_session_of_a_person_ends_with_the_configuration(app: Regente) -> None:
    """O18: sessions of another provider, or without one, are not valid."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with openid_provider(url) as provider, new_browser(url) as browser:
        provider.know(ana=ANA)
        office = Office(url, app, provider, browser)
        async with regente_at(app, port, provider.issuer):
            await office.sign_in("ana")
            assert await office.session() is not None
        async with regente_at(app, port, "http://localhost:1"):
            assert await office.session() is None


class TestForgedAnswers:
    """O18: what comes back must be of this browser's own sign-in, once."""

    async def test_a_state_of_another_browser(self, office: Office) -> None:
        """A victim's browser is not signed in as the attacker."""
        back = await office.come_back("ana")
        async with new_browser(office.url) as victim:
            answer = await victim.get(back.headers["location"])
            assert problem_in(answer) == "expired"
            await victim.get("/api/session/oidc")  # with a sign-in of its own under way
            answer = await victim.get(back.headers["location"])
            assert problem_in(answer) == "expired"
            assert await office.session(victim) is None
        failed = await events_of(office.app, "operator_action")
        assert {one["action"] for one in failed} == {"session.failed"}

    async def test_a_redirect_that_is_replayed(self, office: Office) -> None:
        """Also by the browser that has the cookie: the state is used up, and so is the code."""
        back = await office.come_back("ana")
        cookie = {"cookie": f"{SIGN_IN}={office.browser.cookies[SIGN_IN]}"}
        first = await office.browser.get(back.headers["location"])
        assert urlsplit(first.headers["location"]).path == "/"
        async with new_browser(office.url) as thief:
            answer = await thief.get(back.headers["location"], headers=cookie)
            assert problem_in(answer) == "expired"
            assert await office.session(thief) is None

    async def test_of_two_uses_at_the_same_time_one_succeeds(self, office: Office) -> None:
        back = await office.come_back("ana")
        both = [office.browser.get(back.headers["location"]) for _ in range(2)]
        paths = {urlsplit(one.headers["location"]).path for one in await asyncio.gather(*both)}
        assert paths == {"/", "/sign-in"}

    async def test_a_code_of_another_sign_in(self, office: Office) -> None:
        """A stolen code is worth nothing without the verifier of the browser that began."""
        stolen = parse_qs(urlsplit((await office.come_back("ana")).headers["location"]).query)
        async with new_browser(office.url) as thief:
            own = (await office.come_back("ana", thief)).headers["location"]
            forged = own.replace(parse_qs(urlsplit(own).query)["code"][0], stolen["code"][0])
            assert forged != own
            assert problem_in(await thief.get(forged)) == "invalid_answer"
            assert await office.session(thief) is None

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"state": None}, "expired"),
            ({"state": "A" * 43}, "expired"),
            ({"state": "\N{SNOWMAN}"}, "expired"),
            ({"code": None}, "invalid_answer"),
            ({"code": "A" * 5000}, "invalid_answer"),
            ({"code": "nonsense"}, "invalid_answer"),
            ({"iss": "https://evil.example"}, "invalid_answer"),
            ({"iss": None}, "invalid_answer"),
            ({"error": "access_denied"}, "canceled"),
        ],
    )
    async def test_an_altered_redirect(
        self, office: Office, change: dict[str, str | None], problem: str
    ) -> None:
        back = urlsplit((await office.come_back("ana")).headers["location"])
        sent: dict[str, Any] = {name: one[0] for name, one in parse_qs(back.query).items()}
        sent = {name: one for name, one in {**sent, **change}.items() if one is not None}
        answer = await office.browser.get(back.path, params=sent)
        assert problem_in(answer) == problem
        assert await office.session() is None

    async def test_an_old_sign_in(self, office: Office, database_url: str) -> None:
        back = await office.come_back("ana")
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute(
                "UPDATE regente.oidc_sign_ins SET expires_at = regente.clock()"
            )
        assert problem_in(await office.browser.get(back.headers["location"])) == "expired"

    @pytest.mark.parametrize(
        "page",
        ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "@evil"],
    )
    async def test_no_page_of_another_site_follows(self, office: Office, page: str) -> None:
        answer = await office.sign_in("ana", page=page)
        assert answer.headers["location"] == f"{office.url}/"

    async def test_the_host_header_does_not_move_the_redirect(self, office: Office) -> None:
        for header in ("host", "x-forwarded-host"):
            begun = await office.browser.get("/api/session/oidc", headers={header: "evil.example"})
            assert "evil.example" not in str(begun.headers)


async def test_sign_ins_that_never_come_back_are_forgotten(
    office: Office, database_url: str
) -> None:
    """O18: nothing is left of them."""
    for _ in range(3):
        await office.browser.get("/api/session/oidc")

    async def begun() -> int:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            found = await connection.execute("SELECT FROM regente.oidc_sign_ins")
            return found.rowcount

    assert await begun() == 3
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("UPDATE regente.oidc_sign_ins SET expires_at = regente.clock()")
    await office.browser.get("/api/session/oidc")

    async def one_is_left() -> bool:
        return await begun() == 1

    await eventually_async(one_is_left)
