"""Wire models of keys and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from regente.api.access.principal import Role
from regente.api.models.basics import Strict, Word


class Key(BaseModel):
    id: str = Field(examples=["key_0f3a5b7c9d1e"])
    name: str = Field(examples=["ana"])
    prefix: str = Field(description="Its first characters.", examples=["rg_Yx3fA8kQ"])
    role: Role
    scopes: list[str] | None = Field(
        description="Tags of the resources that it reaches; null: all.", examples=[["missions"]]
    )
    status: Literal["valid", "expired", "revoked"]
    sessions: int = Field(description="Open console sessions.")
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


class NewKey(Strict):
    name: str = Field(min_length=1, max_length=100, examples=["ana"])
    role: Role
    scopes: list[Word] = Field(
        [],
        max_length=50,
        description="Tags of the resources that it reaches, as in this document; none: all. "
        "A key with scopes cannot manage keys.",
        examples=[["missions"]],
    )
    expires_at: datetime | None = None


class CreatedKey(BaseModel):
    id: str
    name: str
    role: Role
    scopes: list[str] | None
    api_key: str = Field(description="Shown only once.", examples=["rg_Yx3fA8kQ…"])


class SignInLink(BaseModel):
    url: str = Field(
        description="Signs in to the console; valid once.",
        examples=["https://regente.example.com/sign-in#token=…"],
    )
    expires_at: datetime


class Credentials(Strict):
    """A sign-in link's token, or an API key."""

    token: SecretStr | None = Field(None, max_length=200)
    api_key: SecretStr | None = Field(None, max_length=200)


class Session(BaseModel):
    name: str = Field(examples=["ana"])
    role: Role
    via: Literal["key", "session", "open"]
    csrf_token: str | None = Field(
        description="Send it as `x-csrf-token` with requests that change something."
    )


class OpenSession(BaseModel):
    id: str = Field(examples=["ses_0f3a5b7c9d1e2f3a"])
    address: str | None = Field(description="Where it began.", examples=["192.0.2.7"])
    created_at: datetime
    last_used_at: datetime | None = Field(description="To the minute.")
    expires_at: datetime
    current: bool = Field(description="Whether this request uses it.")


class SignInProvider(BaseModel):
    name: str = Field(examples=["Keycloak"])
    url: str = Field(
        description="The page with which a browser begins to sign in.",
        examples=["https://regente.example.com/api/session/oidc"],
    )


class SignedOut(BaseModel):
    url: str = Field(description="Where the browser signs out at the provider, too.")


class Person(BaseModel):
    id: str = Field(examples=["usr_0f3a5b7c9d1e2f3a"])
    name: str = Field(examples=["oidc:ana@example.com"])
    issuer: str = Field(examples=["https://login.example.com/realms/staff"])
    role: Role | None = Field(description="From the last sign-in; null: it was refused.")
    sessions: int = Field(description="Open console sessions.")
    created_at: datetime
    signed_in_at: datetime


class Health(BaseModel):
    status: Literal["ok"] = "ok"
