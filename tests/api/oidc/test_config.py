"""The configuration of the provider: what is refused, and what claims mean."""

from __future__ import annotations

from typing import Any

import pytest

from regente.api.access.principal import Role
from regente.api.oidc.config import OidcConfig, parse_roles
from regente.api.oidc.flow import local_page


def config(**changes: Any) -> OidcConfig:
    return OidcConfig(
        **{
            "issuer": "https://login.example.com",
            "client_id": "regente",
            "public_url": "https://regente.example.com",
            **changes,
        }
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "login.example.com"},
        {"issuer": "https://user:password@login.example.com"},
        {"issuer": "https://login.example.com/?a=b"},
        {"issuer": "https://[bad"},
        {"issuer": "https://"},
        {"public_url": "http://regente.example.com"},
        {"public_url": "javascript://x"},
        {"scopes": "profile email"},
    ],
)
def test_an_unsafe_configuration_is_refused(changes: dict[str, Any]) -> None:
    """O18: tokens go over HTTPS, or stay on this machine."""
    with pytest.raises(ValueError, match=r"https URL|openid"):
        config(**changes)


def test_the_secret_is_not_shown() -> None:
    """S7: in the log of a crash, for example."""
    assert "hidden" not in repr(config(client_secret="hidden"))


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({}, None),
        ({"roles": []}, None),
        ({"roles": ["guest"]}, None),
        ({"roles": {"admin": True}}, None),
        ({"roles": [["admin"], 7]}, None),
        ({"roles": "admin operator"}, None),
        ({"roles": "operator"}, Role.OPERATOR),
        ({"roles": ["viewer", "admin", "operator"]}, Role.ADMIN),
    ],
)
def test_of_several_roles_the_highest_counts(claims: dict[str, Any], role: Role | None) -> None:
    """O18: and nothing but texts is a role."""
    assert config().role_of(claims) is role


def test_claims_have_the_names_that_providers_give_them() -> None:
    """O18: Keycloak nests them, Auth0 names them by URL."""
    nested = config(role_claim="resource_access.regente.roles")
    assert nested.role_of({"resource_access": {"regente": {"roles": ["admin"]}}}) is Role.ADMIN
    assert nested.role_of({"resource_access": "none"}) is None
    by_url = config(role_claim="https://example.com/roles")
    assert by_url.role_of({"https://example.com/roles": ["viewer"]}) is Role.VIEWER


def test_roles_are_mapped() -> None:
    """O18: values may contain what directories put into them."""
    roles = parse_roles("admin=cn=chefs,ou=groups; operator=Night Shift;operator=ops;")
    assert roles == (
        (Role.ADMIN, "cn=chefs,ou=groups"),
        (Role.OPERATOR, "Night Shift"),
        (Role.OPERATOR, "ops"),
    )
    for wrong in ("", ";", "king=x", "admin", "admin="):
        with pytest.raises(ValueError, match=r"role"):
            parse_roles(wrong)


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ("/", "/"),
        ("/missions/7?tab=a%20b&x=1", "/missions/7?tab=a%20b&x=1"),
        ("", "/"),
        ("missions", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\\b", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("/é", "/"),
        ("/" + "a" * 500, "/"),
        ("https://evil.example", "/"),
    ],
)
def test_only_paths_of_the_console_are_pages(given: str, page: str) -> None:
    """O18: no open redirect."""
    assert local_page(given) == page
