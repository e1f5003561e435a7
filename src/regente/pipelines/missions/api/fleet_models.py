"""Requests that add and change workers, proxies and writers. Secrets are write-only."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretStr

from regente.api.models.basics import Strict

Secret = Annotated[
    SecretStr,
    Field(
        min_length=1, max_length=200, json_schema_extra={"writeOnly": True, "examples": ["s3cr3t"]}
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=100, examples=["w1"])]
Url = Annotated[str, Field(min_length=1, max_length=500, examples=["https://worker.example.com"])]
Port = Annotated[int, Field(ge=1, le=65_535)]


class NewWorker(Strict):
    name: Name
    url: Url
    api_key: Secret
    storage_domain: str = Field(min_length=1, max_length=255, examples=["storage.example.com"])


class WorkerChanges(Strict):
    name: Name | None = None
    url: Url | None = None
    api_key: Secret | None = None
    storage_domain: str | None = Field(None, min_length=1, max_length=255)


class NewProxy(Strict):
    name: Name
    host: str = Field(min_length=1, max_length=200, examples=["proxy.example.com"])
    port: Port | None = None
    username: str | None = Field(None, max_length=100)
    password: Secret | None = None


class ProxyChanges(Strict):
    name: Name | None = None
    host: str | None = Field(None, min_length=1, max_length=200)
    port: Port | None = None
    username: str | None = Field(None, max_length=100)
    password: Secret | None = None


class NewWriter(Strict):
    name: Name
    url: Url
    api_key: Secret


class WriterChanges(Strict):
    name: Name | None = None
    url: Url | None = None
    api_key: Secret | None = None


def plain(changes: BaseModel) -> dict[str, Any]:
    """The given fields with secrets as plain text, for the fleet's registry."""
    given = changes.model_dump(exclude_unset=True, exclude_none=True)
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in given.items()
    }
