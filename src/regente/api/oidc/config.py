"""The OpenID Connect provider that people may sign in with, and what its claims mean here."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from regente.api.access.principal import Role

CALLBACK = "/api/session/oidc/callback"
DEFAULT_SCOPES = "openid profile email"
DEFAULT_ROLES = ";".join(f"{role}={role}" for role in Role)
MAX_NAME_CHARACTERS = 90


@dataclass(frozen=True, slots=True)
class OidcConfig:
    issuer: str
    """Exactly as the provider's discovery document spells it."""
    client_id: str
    public_url: str
    """How browsers reach Regente: the provider sends them back there, and nowhere else."""
    client_secret: str | None = field(default=None, repr=False)
    """None: a public client, which PKCE alone protects."""
    name: str = "OpenID Connect"
    """What the sign-in page calls the provider."""
    scopes: str = DEFAULT_SCOPES
    role_claim: str = "roles"
    """The claim with the roles; dots go into nested claims, as in `realm_access.roles`."""
    roles: tuple[tuple[Role, str], ...] = tuple((role, role.value) for role in Role)
    """Which value of the claim gives which role; of several the highest counts."""
    default_role: Role | None = None
    """The role of people without one of these values; None: they are refused."""
    name_claim: str = "email"

    def __post_init__(self) -> None:
        for what, url in (("issuer", self.issuer), ("public URL", self.public_url)):
            if not is_safe(url):
                raise ValueError(f"the {what} must be an https URL, or an http one of this machine")
        if "openid" not in self.scopes.split():
            raise ValueError("the scopes must contain openid")

    @property
    def redirect_uri(self) -> str:
        return self.public_url + CALLBACK

    def role_of(self, claims: Mapping[str, Any]) -> Role | None:
        given = _texts(claim(claims, self.role_claim))
        found = [role for role, value in self.roles if value in given]
        return max(found, key=list(Role).index) if found else self.default_role

    def name_of(self, claims: Mapping[str, Any]) -> str:
        """The person's name, as events show it; the subject if there is none to trust."""
        given = claim(claims, self.name_claim)
        unverified = self.name_claim == "email" and claims.get("email_verified") is False
        if not isinstance(given, str) or not given or unverified:
            given = str(claims["sub"])
        shown = "".join(
            sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in given
        )
        return f"oidc:{shown[:MAX_NAME_CHARACTERS]}"


def is_safe(url: str) -> bool:
    """Whether what is sent there stays secret: over HTTPS, or within this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parse_roles(text: str) -> tuple[tuple[Role, str], ...]:
    """`admin=ops-leads;operator=ops;viewer=staff`: a role's value may contain anything but `;`."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        role, _, value = part.partition("=")
        if role.strip() not in list(Role) or not value.strip():
            raise ValueError(
                f"{part!r} is not ROLE=VALUE with one of the roles {', '.join(Role)}; "
                "several are separated by semicolons"
            )
        found.append((Role(role.strip()), value.strip()))
    if not found:
        raise ValueError("the roles are empty; leave them out for viewer, operator and admin")
    return tuple(found)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name; if there is none, the one to which its dots lead."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(value: Any) -> frozenset[str]:
    """The values of a claim that is one text or a list of texts."""
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(one for one in given if isinstance(one, str))
