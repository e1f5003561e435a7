"""Workers, proxies and writers with their secrets, to call them. Secrets are absent from their
repr."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regente.contracts.worker import ProxyAddress

Kind = Literal["worker", "proxy", "writer"]
KINDS: tuple[Kind, ...] = ("worker", "proxy", "writer")


@dataclass(frozen=True, slots=True)
class Worker:
    id: str
    name: str
    url: str
    api_key: str = field(repr=False)
    storage_domain: str | None
    status: str
    session_count: int
    current_mission_id: int | None
    session_id: int | None
    driver_id: int | None
    failures: int
    active: bool

    def data_url(self, job_id: str) -> str:
        """URL of a job's results. A storage domain that has a scheme keeps it."""
        domain = (self.storage_domain or "").rstrip("/")
        base = domain if "://" in domain else f"https://{domain}"
        return f"{base}/{job_id}/{job_id}_results.json"


@dataclass(frozen=True, slots=True)
class Proxy:
    id: str
    name: str
    host: str
    port: int | None
    username: str | None
    password: str | None = field(repr=False)

    @property
    def address(self) -> ProxyAddress:
        server = self.host if self.port is None else f"{self.host}:{self.port}"
        return ProxyAddress(server=server, username=self.username, password=self.password)

    @property
    def url(self) -> str:
        """The proxy's URL for an HTTP client, without credentials."""
        server = self.host if "://" in self.host else f"http://{self.host}"
        return server if self.port is None else f"{server}:{self.port}"


@dataclass(frozen=True, slots=True)
class Writer:
    id: str
    name: str
    url: str
    api_key: str = field(repr=False)
    active: bool
