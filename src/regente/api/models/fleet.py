"""Wire models of workers, proxies and writers. Secrets are write-only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

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


class Member(BaseModel):
    id: str
    name: str
    active: bool
    last_test_at: datetime | None
    last_test_ok: bool | None
    last_test_message: str | None
    created_at: datetime


class Worker(Member):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": "wk_0f3a5b7c9d1e",
                "name": "w1",
                "active": True,
                "last_test_at": "2025-01-15T10:00:00Z",
                "last_test_ok": True,
                "last_test_message": "it answers; its session is ready",
                "created_at": "2025-01-01T00:00:00Z",
                "url": "https://worker.example.com",
                "storage_domain": "storage.example.com",
                "status": "scraping",
                "session_count": 2,
                "current_mission_id": 42,
                "proxy": "proxy-br-1",
                "failures": 0,
                "rest_until": None,
                "error_code": None,
                "error_message": None,
                "progress_at": "2025-01-15T10:05:00Z",
                "sessions": 30,
                "good_sessions": 29,
                "missions": 128,
            }
        }
    )

    url: str
    storage_domain: str | None
    status: Literal["idle", "initializing", "ready", "scraping", "error"]
    session_count: int = Field(description="Missions on its current session.")
    current_mission_id: int | None
    proxy: str | None = Field(description="The proxy of its session.")
    failures: int = Field(description="Consecutive sessions that did not start.")
    rest_until: datetime | None
    error_code: str | None
    error_message: str | None
    progress_at: datetime | None = Field(description="The last heartbeat of its mission.")
    sessions: int = Field(description="Sessions in the last 7 days.")
    good_sessions: int = Field(description="Sessions that became ready.")
    missions: int = Field(description="Missions that these sessions were given.")


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


class Proxy(Member):
    host: str
    port: int | None
    username: str | None
    has_password: bool
    status: Literal["free", "in use", "inactive"]
    worker: str | None = Field(description="The worker that uses it.")
    fail_count: int
    last_used_at: datetime | None
    last_failed_at: datetime | None
    last_failure: str | None
    sessions: int = Field(description="Sessions through it in the last 7 days.")
    good_sessions: int = Field(description="Sessions that became ready.")


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


class Writer(Member):
    url: str


class NewWriter(Strict):
    name: Name
    url: Url
    api_key: Secret


class WriterChanges(Strict):
    name: Name | None = None
    url: Url | None = None
    api_key: Secret | None = None


class Verdict(BaseModel):
    """The result of a test."""

    ok: bool
    message: str = Field(examples=["it answers; its session is ready"])
    milliseconds: float


def plain(changes: BaseModel) -> dict[str, Any]:
    """The given fields with secrets as plain text, for the fleet's registry."""
    given = changes.model_dump(exclude_unset=True, exclude_none=True)
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in given.items()
    }
