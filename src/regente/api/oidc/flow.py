"""One sign-in: `begin` sends the browser to the provider, `finish` takes what it comes back with.

A random text in a cookie of this browser is all that a sign-in needs to be recognised: state, nonce
and the verifier of PKCE are derived from it. The database has the hash of the state, until it is
used, once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regente.api.access.keys import MAX_GIVEN_CHARACTERS, digest
from regente.api.access.people import People
from regente.api.access.principal import Principal
from regente.api.oidc.config import OidcConfig, claim
from regente.api.oidc.errors import SignInFailed, SignInProblem
from regente.api.oidc.id_token import verified_claims
from regente.api.oidc.provider import Provider, with_query
from regente.api.queries import QUERIES, LimitedDatabase

ATTEMPT_SECONDS = 600.0
"""How long a person may take at the provider."""
MAX_PAGE_CHARACTERS = 500
MAX_CODE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class StartedSignIn:
    url: str
    """The provider's page."""
    secret: str = field(repr=False)
    """For the browser's cookie."""


@dataclass(frozen=True, slots=True)
class CompletedSignIn:
    principal: Principal
    page: str
    """The console's page to which the person wanted to go."""
    id_token: str = field(repr=False)


class OidcSignIn:
    def __init__(self, config: OidcConfig, database: LimitedDatabase) -> None:
        self.config = config
        self._provider = Provider(config)
        self._people = People(database)
        self._database = database

    async def close(self) -> None:
        await self._provider.close()

    async def begin(self, page: str) -> StartedSignIn:
        endpoint = (await self._provider.metadata()).authorization_endpoint
        secret = secrets.token_urlsafe(32)
        state, nonce, verifier = _derived(secret)
        await QUERIES.execute(
            self._database,
            "begin_oidc",
            hash=digest(state),
            page=local_page(page),
            seconds=ATTEMPT_SECONDS,
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        sent = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": self.config.redirect_uri,
            "scope": self.config.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return StartedSignIn(with_query(endpoint, sent), secret)

    async def finish(self, secret: str | None, answer: Mapping[str, str]) -> CompletedSignIn:
        """Return the person who signed in, from the parameters of the provider's redirect; raises
        SignInFailed."""
        page, nonce, verifier = await self._recognise(secret, answer.get("state", ""))
        await self._check_issuer(answer)
        if error := answer.get("error"):
            raise SignInFailed(SignInProblem.CANCELED, f"the provider answered {error[:100]!r}")
        code = answer.get("code", "")
        if not code or len(code) > MAX_CODE_CHARACTERS:
            raise SignInFailed(SignInProblem.INVALID, "the provider sent no code")
        tokens = await self._provider.redeem(code, verifier)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise SignInFailed(SignInProblem.INVALID, "the provider sent no ID token")
        keys = await self._provider.keys()
        claims = verified_claims(id_token, keys, self.config, nonce)
        claims = await self._completed(claims, tokens.get("access_token"))
        return CompletedSignIn(await self._admit(claims), page, id_token)

    async def sign_out_url(self, id_token: str) -> str | None:
        """Where the browser signs out at the provider, too."""
        try:
            return await self._provider.sign_out_url(id_token)
        except SignInFailed:
            return None

    async def _recognise(self, secret: str | None, state: str) -> tuple[str, str, str]:
        """The page, nonce and verifier of the sign-in that this browser began; it is used up."""
        if secret is None or len(secret) > MAX_GIVEN_CHARACTERS:
            raise SignInFailed(SignInProblem.EXPIRED, "this browser began no sign-in")
        expected, nonce, verifier = _derived(secret)
        if not hmac.compare_digest(state.encode(), expected.encode()):
            raise SignInFailed(SignInProblem.EXPIRED, "the state is not that of this browser")
        row = await QUERIES.fetch_one(self._database, "use_oidc", hash=digest(state))
        if row is None:
            raise SignInFailed(SignInProblem.EXPIRED, "the sign-in has expired or was used already")
        return row["page"], nonce, verifier

    async def _check_issuer(self, answer: Mapping[str, str]) -> None:
        """Another provider's answer must not pass for this one's (RFC 9207)."""
        issuer = answer.get("iss")
        if issuer is None and not (await self._provider.metadata()).names_issuer:
            return
        if issuer != self.config.issuer:
            raise SignInFailed(SignInProblem.INVALID, "the answer names another issuer")

    async def _completed(self, claims: dict[str, Any], access_token: Any) -> dict[str, Any]:
        """The claims with those that only the user info has, if one that is needed is missing."""
        wanted = (self.config.role_claim, self.config.name_claim)
        if all(claim(claims, name) is not None for name in wanted):
            return claims
        if not isinstance(access_token, str):
            return claims
        more = await self._provider.user_info(access_token)
        if more and more.get("sub") != claims["sub"]:
            raise SignInFailed(SignInProblem.INVALID, "the user info is about another subject")
        return {**more, **claims}

    async def _admit(self, claims: Mapping[str, Any]) -> Principal:
        name, role = self.config.name_of(claims), self.config.role_of(claims)
        if role is None:
            await self._people.refuse(self.config.issuer, claims["sub"])
            raise SignInFailed(
                SignInProblem.NO_ROLE,
                f"the claim {self.config.role_claim} gives no role",
                person=name,
            )
        return await self._people.sign_in(self.config.issuer, claims["sub"], name, role)


def local_page(text: str) -> str:
    """A page of the console, as a path; anything else becomes the first page."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    usable = is_path and len(text) <= MAX_PAGE_CHARACTERS and text.isascii() and text.isprintable()
    return text if usable and "\\" not in text and " " not in text else "/"


def _derived(secret: str) -> tuple[str, str, str]:
    """State, nonce and PKCE verifier."""
    found = (
        hmac.new(secret.encode(errors="replace"), what, hashlib.sha256).digest()
        for what in (b"state", b"nonce", b"verifier")
    )
    state, nonce, verifier = (base64.urlsafe_b64encode(one).decode().rstrip("=") for one in found)
    return state, nonce, verifier
