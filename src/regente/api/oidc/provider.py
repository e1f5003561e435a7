"""Calls to the provider, limited in time and size: discovery, keys, exchange of the code, user
info."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx2

from regente.api.oidc.config import OidcConfig, is_safe
from regente.api.oidc.errors import SignInFailed, SignInProblem

TIMEOUT_SECONDS = 10.0
"""For a complete answer."""
MAX_ANSWER_BYTES = 512 * 1024
METADATA_SECONDS = 300.0
"""How long the discovery document is used before it is read again. Keys are read at each sign-in,
so that a rotation needs no waiting."""
FAILURE_SECONDS = 3.0
"""How long a failure to read it is the answer, so that callers do not wait one after the other."""
MAX_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Metadata:
    """What Regente uses of the discovery document."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    secret_in_body: bool
    """The token endpoint takes the client secret in the body only."""
    names_issuer: bool
    """Its authorization responses name the issuer (RFC 9207)."""


class Provider:
    def __init__(self, config: OidcConfig) -> None:
        self._config = config
        self._client = httpx2.AsyncClient(
            timeout=TIMEOUT_SECONDS,
            verify=httpx2.create_ssl_context(trust_env=True),  # SSL_CERT_FILE: a CA of one's own
            trust_env=False,
            headers={"accept": "application/json"},
        )
        self._metadata: Metadata | SignInFailed
        self._metadata_ends = -math.inf
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        await self._client.aclose()

    async def metadata(self) -> Metadata:
        """What the discovery document says; of concurrent callers one reads it."""
        async with self._reading:
            if time.monotonic() >= self._metadata_ends:
                self._metadata = await self._read_metadata()
                failed = isinstance(self._metadata, SignInFailed)
                seconds = FAILURE_SECONDS if failed else METADATA_SECONDS
                self._metadata_ends = time.monotonic() + seconds
            found = self._metadata
        if isinstance(found, Metadata):
            return found
        raise SignInFailed(found.problem, found.reason)

    async def keys(self) -> dict[str, Any]:
        return await self._json("GET", (await self.metadata()).jwks_uri)

    async def redeem(self, code: str, verifier: str) -> dict[str, Any]:
        """Exchange the authorization code for tokens."""
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._config.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        secret = self._config.client_secret
        if secret is None:
            form["client_id"] = self._config.client_id
        elif metadata.secret_in_body:
            form |= {"client_id": self._config.client_id, "client_secret": secret}
        else:
            pair = f"{quote_plus(self._config.client_id)}:{quote_plus(secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return await self._json("POST", metadata.token_endpoint, form=form, headers=headers)

    async def user_info(self, access_token: str) -> dict[str, Any]:
        endpoint = (await self.metadata()).userinfo_endpoint
        if endpoint is None:
            return {}
        return await self._json(
            "GET", endpoint, headers={"authorization": f"Bearer {access_token}"}
        )

    async def sign_out_url(self, id_token: str) -> str | None:
        """Where the browser ends the session at the provider, if it offers that."""
        endpoint = (await self.metadata()).end_session_endpoint
        if endpoint is None:
            return None
        sent = {
            "id_token_hint": id_token,
            "client_id": self._config.client_id,
            "post_logout_redirect_uri": f"{self._config.public_url}/sign-in",
        }
        return with_query(endpoint, sent)

    async def _read_metadata(self) -> Metadata | SignInFailed:
        base = self._config.issuer.rstrip("/")
        try:
            document = await self._json("GET", f"{base}/.well-known/openid-configuration")
            return self._usable(document)
        except SignInFailed as error:
            return error

    def _usable(self, document: dict[str, Any]) -> Metadata:
        if document.get("issuer") != self._config.issuer:
            raise SignInFailed(
                SignInProblem.UNAVAILABLE,
                f"the provider calls itself {str(document.get('issuer'))[:200]!r}: "
                "set REGENTE_OIDC_ISSUER to exactly that",
            )

        def endpoint(name: str) -> str | None:
            url = document.get(name)
            return url if isinstance(url, str) and _is_endpoint(url) else None

        needed = [
            endpoint(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        ]
        authorize, token, keys = needed
        if authorize is None or token is None or keys is None:
            raise SignInFailed(
                SignInProblem.UNAVAILABLE,
                "the discovery document lacks the address of an endpoint, or it is no https URL",
            )
        methods = document.get("token_endpoint_auth_methods_supported")
        return Metadata(
            authorize,
            token,
            keys,
            endpoint("userinfo_endpoint"),
            endpoint("end_session_endpoint"),
            isinstance(methods, list)
            and "client_secret_basic" not in methods
            and "client_secret_post" in methods,
            document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _json(
        self,
        method: str,
        url: str,
        *,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """The JSON object that the provider answers. Redirects are not followed."""
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                self._client.stream(method, url, data=form, headers=headers) as response,
            ):
                body = await _limited_body(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            reason = f"{method} {url}: {type(error).__name__}"
            raise SignInFailed(SignInProblem.UNAVAILABLE, reason) from None
        document = _object_in(body)
        if response.status_code >= 500 or (response.status_code != 200 and method == "GET"):
            reason = f"{method} {url} answered {response.status_code}"
            raise SignInFailed(SignInProblem.UNAVAILABLE, reason)
        if response.status_code != 200:
            said = str((document or {}).get("error"))[:MAX_REASON_CHARACTERS]
            reason = f"{method} {url} answered {response.status_code}: {said}"
            raise SignInFailed(SignInProblem.INVALID, reason)
        if document is None:
            reason = f"{method} {url} answered no JSON object"
            raise SignInFailed(SignInProblem.INVALID, reason)
        return document


def with_query(url: str, parameters: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"


def _is_endpoint(url: str) -> bool:
    """An address of the provider; other than an issuer it may have a query."""
    return is_safe(url.partition("?")[0]) and "#" not in url


async def _limited_body(response: httpx2.Response) -> bytes:
    read = bytearray()
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > MAX_ANSWER_BYTES:
            raise SignInFailed(
                SignInProblem.INVALID,
                f"{response.url} answered more than {MAX_ANSWER_BYTES:,} bytes",
            )
    return bytes(read)


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
