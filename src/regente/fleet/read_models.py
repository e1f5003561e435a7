"""What people see of workers, proxies and writers. Secrets are not part of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from regente.engine.models import ReadModel
from regente.fleet.models import Kind


class Member(ReadModel):
    kind: ClassVar[Kind]

    id: str
    name: str
    active: bool
    last_test_at: datetime | None
    last_test_ok: bool | None
    last_test_message: str | None
    created_at: datetime


class WorkerInfo(Member):
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
    kind = "worker"

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

    @property
    def address(self) -> str:
        return self.url

    @property
    def details(self) -> dict[str, Any]:
        """The details column of the command line."""
        found = {
            "session_count": self.session_count,
            "mission": self.current_mission_id,
            "storage_domain": self.storage_domain,
            "proxy": self.proxy,
            "failures": self.failures or None,
            "error_code": self.error_code,
            "error_message": self.error_message,
        }
        return {name: value for name, value in found.items() if value is not None}


class ProxyInfo(Member):
    kind = "proxy"

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

    @property
    def address(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def details(self) -> dict[str, Any]:
        """The details column of the command line."""
        found = {
            "fail_count": self.fail_count,
            "worker": self.worker,
            "last_used_at": self.last_used_at,
            "last_failed_at": self.last_failed_at,
            "last_failure": self.last_failure,
        }
        return {name: value for name, value in found.items() if value is not None}


class WriterInfo(Member):
    kind = "writer"

    url: str
    status: Literal["active", "resting", "inactive"] = Field(
        description="`resting` from a failure to the next success: others get its jobs."
    )
    failures: int = Field(description="Consecutive calls that failed.")
    failed_jobs: int = Field(description="Consecutive jobs that it could not store.")
    rest_until: datetime | None = Field(description="It gets no job before, then one to try.")
    last_failed_at: datetime | None
    error_code: str | None
    error_message: str | None = Field(description="Why it failed last, or was deactivated.")

    @property
    def address(self) -> str:
        return self.url

    @property
    def details(self) -> dict[str, Any]:
        """The details column of the command line."""
        found = {
            "failures": self.failures or None,
            "failed_jobs": self.failed_jobs or None,
            "rest_until": self.rest_until,
            "error_code": self.error_code,
            "error_message": self.error_message,
        }
        return {name: value for name, value in found.items() if value is not None}


FleetMember = WorkerInfo | ProxyInfo | WriterInfo
MODELS: tuple[type[FleetMember], ...] = (WorkerInfo, ProxyInfo, WriterInfo)
