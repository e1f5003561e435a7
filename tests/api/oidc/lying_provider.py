"""A provider that answers what a test wants: what no certified one would do."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from regente.asgi.server import serving
from tests.api.oidc.openid_provider import CLIENT_ID

Claims = dict[str, Any]


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    """The key of that name."""
    return rsa.generate_private_key(65537, 2048)


def public_jwk(name: str, **more: Any) -> dict[str, Any]:
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(name).public_key()))
    return {**jwk, "kid": name, "use": "sig", **more}


def signed(claims: Claims, key: str = "right", algorithm: str = "RS256") -> str:
    return jwt.encode(claims, rsa_key(key), algorithm, headers={"kid": key})


def signed_by_curve(claims: Claims) -> tuple[str, dict[str, Any]]:
    """A token with ES256, and its key for the set."""
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return jwt.encode(claims, key, "ES256"), {**jwk, "use": "sig"}


@dataclass(slots=True)
class LyingProvider:
    issuer: str = ""
    make: Callable[[Claims], str] = signed
    """The ID token from what would be right claims."""
    claims: Claims = field(default_factory=dict)
    """Changes of these; None removes one."""
    keys: list[Any] = field(default_factory=lambda: [public_jwk("right")])
    metadata: dict[str, Any] = field(default_factory=dict)
    """Changes of the discovery document."""
    answers: dict[str, Response] = field(default_factory=dict)
    """Instead of the right ones, by path."""
    hangs: bool = False
    asked: int = 0
    nonce: str = ""

    def right_claims(self) -> Claims:
        now = int(time.time())
        right = {
            "iss": self.issuer,
            "sub": "1",
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "email": "ana@example.com",
            "roles": ["viewer"],
        }
        return {name: one for name, one in {**right, **self.claims}.items() if one is not None}

    async def answer(self, request: Request) -> Response:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        path = request.url.path
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            names = {
                "authorization_endpoint": "auth",
                "token_endpoint": "token",
                "jwks_uri": "keys",
            }
            document = {name: f"{self.issuer}/{part}" for name, part in names.items()}
            return JSONResponse({"issuer": self.issuer, **document, **self.metadata})
        if path == "/keys":
            return JSONResponse({"keys": self.keys})
        if path == "/auth":
            self.nonce = request.query_params["nonce"]
            back, state = (request.query_params[name] for name in ("redirect_uri", "state"))
            return RedirectResponse(f"{back}?code=any&state={state}")
        return JSONResponse({"id_token": self.make(self.right_claims()), "access_token": "any"})


@asynccontextmanager
async def lying_provider() -> AsyncIterator[LyingProvider]:
    provider = LyingProvider()
    app = Starlette(routes=[Route("/{path:path}", provider.answer, methods=["GET", "POST"])])
    async with serving(app, drain_seconds=0) as url:
        provider.issuer = url
        yield provider
