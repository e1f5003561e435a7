"""Checks an ID token (OpenID Connect Core 3.1.3.7): signature, issuer, audience, times, nonce."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any

import jwt

from regente.api.oidc.config import OidcConfig
from regente.api.oidc.errors import SignInFailed, SignInProblem

LEEWAY_SECONDS = 60.0
"""How far the provider's clock and ours may differ."""
MAX_CHARACTERS = 64 * 1024
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures with a private key: neither `none` nor HS*, which the client secret makes."""
REQUIRED = ["iss", "sub", "aud", "exp", "iat"]


def verified_claims(
    token: str, keys: Mapping[str, Any], config: OidcConfig, nonce: str
) -> dict[str, Any]:
    """The claims of a token that one of the provider's keys has signed, for us and this sign-in."""
    try:
        claims = _signed_claims(token, keys, config)
    except jwt.PyJWTError as error:
        raise _invalid(f"{type(error).__name__}: {error}") from None
    subject, party = claims["sub"], claims.get("azp")
    if not subject or len(subject) > 255:
        raise _invalid("its subject is empty or too long")
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and party is None:
        raise _invalid("it has several audiences and names no authorized party")
    if party is not None and party != config.client_id:
        raise _invalid("another client is its authorized party")
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise _invalid("its nonce is not that of this sign-in")
    return claims


def _signed_claims(token: str, keys: Mapping[str, Any], config: OidcConfig) -> dict[str, Any]:
    if len(token) > MAX_CHARACTERS:
        raise jwt.DecodeError("too long")
    header = jwt.get_unverified_header(token)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise jwt.InvalidAlgorithmError("its algorithm is not allowed")
    refused: jwt.PyJWTError = jwt.InvalidKeyError("the provider has no key for it")
    for key in _candidates(keys, header.get("kid"), algorithm):
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=config.client_id,
                issuer=config.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED, "enforce_minimum_key_length": True},
            )
        except jwt.InvalidSignatureError as error:
            refused = error  # without a key id any key of the set may be meant
    raise refused


def _candidates(keys: Mapping[str, Any], key_id: str | None, algorithm: str) -> Iterator[jwt.PyJWK]:
    found = keys.get("keys")
    for key in found if isinstance(found, list) else []:
        if (
            isinstance(key, dict)
            and key_id in (None, key.get("kid"))
            and key.get("use", "sig") == "sig"
            and key.get("alg", algorithm) == algorithm
        ):
            try:
                yield jwt.PyJWK(key, algorithm)
            except jwt.PyJWTError:
                continue  # of another kind


def _invalid(reason: str) -> SignInFailed:
    return SignInFailed(SignInProblem.INVALID, f"the ID token is refused: {reason}")
