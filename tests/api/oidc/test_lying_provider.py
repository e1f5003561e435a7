"""What a provider answers is believed only when it is signed, fresh, and for this sign-in."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from regente import Regente
from regente.api.oidc import provider as calls
from tests.api.oidc.conftest import free_port, new_browser, regente_at
from tests.api.oidc.lying_provider import (
    Claims,
    LyingProvider,
    lying_provider,
    public_jwk,
    rsa_key,
    signed,
    signed_by_curve,
)
from tests.api.oidc.openid_provider import SECRET


@pytest.fixture
async def provider() -> AsyncIterator[LyingProvider]:
    async with lying_provider() as found:
        yield found


@pytest.fixture
async def browser(app: Regente, provider: LyingProvider) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        regente_at(app, free_port(), provider.issuer) as url,
        new_browser(url) as opened,
    ):
        yield opened


async def outcome(browser: httpx2.AsyncClient) -> str:
    """Sign in; the problem, or `signed in`."""
    begun = await browser.get("/api/session/oidc")
    answer = begun
    if "/sign-in?" not in begun.headers["location"]:
        back = await browser.get(begun.headers["location"])
        answer = await browser.get(back.headers["location"])
    assert answer.status_code == 303
    target = urlsplit(answer.headers["location"])
    session = (await browser.get("/api/session")).status_code
    if target.path == "/":
        assert session == 200
        return "signed in"
    assert session == 401
    return parse_qs(target.query)["problem"][0]


async def test_right_answers_sign_in(browser: httpx2.AsyncClient) -> None:
    """O18: so that the refusals below are for their own reasons."""
    assert await outcome(browser) == "signed in"


FAR = 4_102_444_800
"""A time in the year 2100."""


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": 7},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": FAR},
        {"iat": FAR},
        {"iat": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": []},
        {"aud": None},
        {"aud": ["another", "regente"]},
        {"aud": ["another", "regente"], "azp": "another"},
        {"azp": "another"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
    ],
    ids=json.dumps,
)
async def test_a_token_with_wrong_claims_is_refused(
    browser: httpx2.AsyncClient, provider: LyingProvider, claims: Claims
) -> None:
    """O18: OpenID Connect Core 3.1.3.7."""
    provider.claims = claims
    assert await outcome(browser) == "invalid_answer"


@pytest.mark.parametrize(
    "offsets", [{"exp": -20, "iat": -200}, {"nbf": 20, "iat": 20}], ids=["expired", "ahead"]
)
async def test_clocks_may_differ_a_little(
    browser: httpx2.AsyncClient, provider: LyingProvider, offsets: dict[str, int]
) -> None:
    """O18, F9: by seconds, not by minutes."""
    provider.claims = {name: int(time.time()) + seconds for name, seconds in offsets.items()}
    assert await outcome(browser) == "signed in"


async def test_a_token_for_several_audiences_names_us_as_the_party(
    browser: httpx2.AsyncClient, provider: LyingProvider
) -> None:
    """O18: OpenID Connect Core 3.1.3.7."""
    provider.claims = {"aud": ["regente", "another"], "azp": "regente"}
    assert await outcome(browser) == "signed in"


def unsigned(claims: Claims) -> str:
    return jwt.encode(claims, "", "none")


def with_the_public_key_as_secret(claims: Claims) -> str:
    """The confusion of RS256 with HS256: the public key is no secret."""
    header = _part({"alg": "HS256", "kid": "right"})
    secret = json.dumps(public_jwk("right")).encode()
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{header}.{_part(claims)}".encode(), secret
    )
    return f"{header}.{_part(claims)}.{_text(signature)}"


def with_the_client_secret(claims: Claims) -> str:
    return jwt.encode(claims, SECRET, "HS256")


def tampered(claims: Claims) -> str:
    """A viewer who makes an admin of themselves."""
    header, _, signature = signed(claims).split(".")
    return f"{header}.{_part({**claims, 'roles': ['admin']})}.{signature}"


def with_its_own_key(claims: Claims) -> str:
    header = {"kid": "right", "jwk": public_jwk("wrong")}
    return jwt.encode(claims, rsa_key("wrong"), "RS256", headers=header)


def without_signature(claims: Claims) -> str:
    return signed(claims).rpartition(".")[0] + "."


def of_an_unknown_key(claims: Claims) -> str:
    return signed(claims, "wrong")


def of_a_wrong_key_under_the_right_name(claims: Claims) -> str:
    return jwt.encode(claims, rsa_key("wrong"), "RS256", headers={"kid": "right"})


def huge(claims: Claims) -> str:
    return signed({**claims, "filler": "x" * 100_000})


def _part(document: dict[str, Any]) -> str:
    return _text(json.dumps(document).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    "make",
    [
        unsigned,
        with_the_public_key_as_secret,
        with_the_client_secret,
        tampered,
        with_its_own_key,
        without_signature,
        of_an_unknown_key,
        of_a_wrong_key_under_the_right_name,
        huge,
        lambda claims: "",
        lambda claims: "a.b.c",
        lambda claims: _part({"alg": ["RS256"]}) + ".e30.AAAA",
        lambda claims: base64.b64encode(b"[" * 20_000).decode() + ".e30.AAAA",
    ],
)
async def test_a_token_with_a_wrong_signature_is_refused(
    browser: httpx2.AsyncClient, provider: LyingProvider, make: Callable[[Claims], str]
) -> None:
    """O18: neither none nor HS256, and by a key of the provider only."""
    provider.make = make
    assert await outcome(browser) == "invalid_answer"


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [None, 7, {"kty": "nonsense", "kid": "right"}],
        [{**public_jwk("right"), "use": "enc"}],
        [{**public_jwk("right"), "alg": "PS256"}],
        [{"kty": "oct", "k": "AAAA", "kid": "right"}],
    ],
)
async def test_keys_for_something_else_sign_nothing(
    browser: httpx2.AsyncClient, provider: LyingProvider, keys: list[Any]
) -> None:
    """O18: a key is used for what it is for."""
    provider.keys = keys
    assert await outcome(browser) == "invalid_answer"


async def test_other_algorithms_with_private_keys_are_allowed(
    browser: httpx2.AsyncClient, provider: LyingProvider
) -> None:
    """O18: also without a key id, when the set has several keys."""
    provider.make = lambda claims: signed(claims, algorithm="PS384")
    assert await outcome(browser) == "signed in"
    made = signed_by_curve({})[1]

    def by_curve(claims: Claims) -> str:
        token, jwk = signed_by_curve(claims)
        provider.keys = [public_jwk("wrong"), made, jwk]
        return token

    provider.make = by_curve
    assert await outcome(browser) == "signed in"


async def test_a_rotated_key_is_found_and_a_withdrawn_one_not_believed(
    browser: httpx2.AsyncClient, provider: LyingProvider
) -> None:
    """O18: at the next sign-in."""
    assert await outcome(browser) == "signed in"
    browser.cookies.clear()
    provider.keys = [public_jwk("new")]
    assert await outcome(browser) == "invalid_answer"
    provider.make = lambda claims: signed(claims, "new")
    assert await outcome(browser) == "signed in"


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"issuer": "https://evil.example"}, "provider_unavailable"),
        ({"token_endpoint": None}, "provider_unavailable"),
        ({"jwks_uri": "http://evil.example/keys"}, "provider_unavailable"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "provider_unavailable"),
        ({"authorization_response_iss_parameter_supported": True}, "invalid_answer"),
    ],
)
async def test_a_discovery_document_that_cannot_be_used(
    browser: httpx2.AsyncClient,
    provider: LyingProvider,
    metadata: dict[str, Any],
    problem: str,
) -> None:
    """O18: another issuer, or addresses that are not safe."""
    provider.metadata = metadata
    assert await outcome(browser) == problem


@pytest.mark.parametrize(
    ("path", "answer", "problem"),
    [
        ("/token", Response(b"x" * 2_000_000), "invalid_answer"),
        ("/token", Response(b"[" * 100_000), "invalid_answer"),
        ("/token", JSONResponse({"access_token": "any"}), "invalid_answer"),
        ("/token", JSONResponse({"id_token": 7}), "invalid_answer"),
        ("/token", JSONResponse({"error": "invalid_grant"}, 400), "invalid_answer"),
        ("/token", RedirectResponse("http://127.0.0.1:1/"), "invalid_answer"),
        ("/token", Response(status_code=503), "provider_unavailable"),
        ("/keys", Response(b"x" * 2_000_000), "invalid_answer"),
        ("/keys", Response(status_code=404), "provider_unavailable"),
        ("/.well-known/openid-configuration", Response(b"no"), "invalid_answer"),
        ("/.well-known/openid-configuration", Response(b"x" * 2_000_000), "invalid_answer"),
    ],
)
async def test_answers_are_limited_and_checked(
    browser: httpx2.AsyncClient, provider: LyingProvider, path: str, answer: Response, problem: str
) -> None:
    """O18: in size and form; redirects are not followed."""
    provider.answers[path] = answer
    assert await outcome(browser) == problem


async def test_a_provider_that_hangs_holds_up_no_others(
    browser: httpx2.AsyncClient, provider: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O18, F8: the call ends, and meanwhile all others are answered."""
    monkeypatch.setattr(calls, "TIMEOUT_SECONDS", 2.0)
    provider.hangs = True
    waiting = asyncio.create_task(outcome(browser))
    while not waiting.done():
        assert (await browser.get("/api/health")).status_code == 200
        await asyncio.sleep(0.05)
    assert await waiting == "provider_unavailable"


async def test_many_who_begin_while_it_hangs_wait_once(
    browser: httpx2.AsyncClient, provider: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O18, F8: not one after the other, and the provider is asked once."""
    monkeypatch.setattr(calls, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(calls, "FAILURE_SECONDS", 60.0)
    provider.hangs = True
    begun = await asyncio.gather(*(browser.get("/api/session/oidc") for _ in range(20)))
    assert {one.status_code for one in begun} == {303}
    assert all("provider_unavailable" in one.headers["location"] for one in begun)
    assert provider.asked == 1


@pytest.mark.parametrize("more", [{"sub": "2"}, {}], ids=["of another", "of no person"])
async def test_the_user_info_must_be_about_the_same_person(
    browser: httpx2.AsyncClient, provider: LyingProvider, more: dict[str, Any]
) -> None:
    """O18: or its role would be another's."""
    provider.claims = {"roles": None}
    provider.metadata = {"userinfo_endpoint": f"{provider.issuer}/userinfo"}
    provider.answers["/userinfo"] = JSONResponse({**more, "roles": ["admin"]})
    assert await outcome(browser) == "invalid_answer"
    provider.answers["/userinfo"] = JSONResponse({"sub": "1", "roles": ["viewer"]})
    assert await outcome(browser) == "signed in"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({}, "oidc:ana@example.com"),
        ({"email_verified": False}, "oidc:1"),
        ({"email": None}, "oidc:1"),
        ({"email": ["a"]}, "oidc:1"),
        ({"email": "a\nb\x1b[31m\u202e"}, "oidc:a\ufffdb\ufffd[31m\ufffd"),
        ({"email": "x" * 500}, "oidc:" + "x" * 90),
    ],
)
async def test_the_name_cannot_be_claimed_or_forge_lines(
    browser: httpx2.AsyncClient, provider: LyingProvider, claims: Claims, name: str
) -> None:
    """O18: an address that the provider has not verified is not shown as the person's."""
    provider.claims = claims
    assert await outcome(browser) == "signed in"
    assert (await browser.get("/api/session")).json()["name"] == name
