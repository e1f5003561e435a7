"""`/api/demo`: starts the demo from the console, if the fleet is empty and the server allows it."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import BaseModel, Field
from starlette.requests import Request

from regente.api.access.roles import Admin, Viewer
from regente.api.audit import AuditNoteDep
from regente.api.resource import resource
from regente.api.state import Api, ApiDep
from regente.engine.errors import IllegalTransition

routes = resource("/api/demo", "orchestrator")

MEMBERS = "demo-"


class DemoProcess(Protocol):
    @property
    def running(self) -> bool: ...

    async def start(self) -> None: ...


class Demo(BaseModel):
    state: Literal["running", "possible", "impossible"]
    reason: str | None = Field(
        description="Why it is impossible.", examples=["the fleet has other members"]
    )


@routes.get("", summary="Show whether the demo runs or can be started")
async def demo(request: Request, api: ApiDep, who: Viewer) -> Demo:
    process = _process(request)
    if process is not None and process.running:
        return Demo(state="running", reason=None)
    reason = await _obstacle(api, process)
    return Demo(state="impossible" if reason else "possible", reason=reason)


@routes.post("/start", summary="Start the demo")
async def start_demo(request: Request, api: ApiDep, who: Admin, note: AuditNoteDep) -> Demo:
    """Runs a sandbox, 3 workers, 6 proxies and 24 missions with faults in this database. Refused if
    the fleet has other members."""
    process = _process(request)
    reason = await _obstacle(api, process)
    if reason or process is None:
        raise IllegalTransition(f"the demo cannot be started: {reason}")
    await process.start()
    note.about("demo", after={"state": "running"})
    return Demo(state="running", reason=None)


def _process(request: Request) -> DemoProcess | None:
    return getattr(request.app.state, "demo", None)


async def _obstacle(api: Api, demo: DemoProcess | None) -> str | None:
    if demo is None:
        return "this server cannot start processes; run `regente up --demo`"
    members = await api.regente.fleet.members()
    if any(not member.name.startswith(MEMBERS) for member in members if member.kind != "writer"):
        return "the fleet has other members"
    return None
