"""Wire models of keys and sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from regente.api.access.principal import Role
from regente.api.models.basics import Strict


class Key(BaseModel):
    id: str = Field(examples=["key_0f3a5b7c9d1e"])
    name: str = Field(examples=["ana"])
    prefix: str = Field(description="Its first characters.", examples=["rg_Yx3fA8kQ"])
    role: Role
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
    expires_at: datetime | None = None


class CreatedKey(BaseModel):
    id: str
    name: str
    role: Role
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


class Health(BaseModel):
    status: Literal["ok"] = "ok"
