"""`/api/demo`: the console starts the demo as a process beside `regente serve`, which ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.conftest import Served, body_of
from tests.api.processes import caller, command
from tests.support.eventually import eventually

WORKER = {
    "name": "ours",
    "url": "http://127.0.0.1:9",
    "api_key": "secret",
    "storage_domain": "s.test",
}


def processes(folder: Path, word: str = "regente") -> list[int]:
    """Processes of this data folder that were started with this word."""
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and _lives_in(path, folder, word)
    ]


def _lives_in(process: Path, folder: Path, word: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        surroundings = (process / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False
    return word.encode() in words and f"REGENTE_DATA_DIR={folder}".encode() in surroundings


def demos(folder: Path) -> list[int]:
    return processes(folder, "--demo")


async def key_of(admin: httpx2.AsyncClient, role: str) -> dict[str, str]:
    made = body_of(await admin.post("/api/keys", json={"name": f"the-{role}", "role": role}), 201)
    return {"x-api-key": made["api_key"]}


async def test_a_server_without_the_demo_reports_it_as_unavailable(api: Served) -> None:
    """O19: `regente serve` alone has no demo."""
    told = body_of(await api.viewer.get("/api/demo"))
    assert told["state"] == "impossible"
    assert "cannot start processes" in told["reason"]
    refused = body_of(await api.admin.post("/api/demo/start"), 409)
    assert refused["code"] == "ILLEGAL_TRANSITION"
    assert "cannot start processes" in refused["detail"]


async def test_every_role_may_read_the_demo_and_only_admins_may_start_it(api: Served) -> None:
    """O18: roles."""
    assert (await api.anonymous.get("/api/demo")).status_code == 401
    assert (await api.anonymous.post("/api/demo/start")).status_code == 401
    for client in (api.viewer, api.operator):
        assert (await client.get("/api/demo")).status_code == 200
        assert (await client.post("/api/demo/start")).status_code == 403


async def test_a_fleet_with_members_gets_no_demo(database_url: str, tmp_path: Path) -> None:
    """O19: the demo's faults must not reach real workers."""
    async with (
        command(database_url, tmp_path) as told,
        caller(told["url"], {"x-api-key": told["api_key"]}) as admin,
    ):
        assert body_of(await admin.get("/api/demo")) == {"state": "possible", "reason": None}
        body_of(await admin.post("/api/workers", json=WORKER), 201)
        said = body_of(await admin.get("/api/demo"))
        assert said == {"state": "impossible", "reason": "the fleet has other members"}
        assert body_of(await admin.post("/api/demo/start"), 409)["code"] == "ILLEGAL_TRANSITION"
        assert demos(tmp_path) == []


@pytest.mark.parametrize("kill", [False, True], ids=["told to stop", "killed"])
async def test_the_demo_runs_once_and_ends_with_its_server(
    database_url: str, tmp_path: Path, kill: bool
) -> None:
    """O19: started twice at once and once more it is one process, which ends with the server.

    That its missions are here is seen in the browser (tests/e2e/test_craft.py).
    """
    async with (
        command(database_url, tmp_path, kill=kill) as told,
        caller(told["url"], {"x-api-key": told["api_key"]}) as admin,
    ):
        assert (
            await admin.post("/api/demo/start", headers=await key_of(admin, "operator"))
        ).status_code == 403
        assert demos(tmp_path) == []
        running = {"state": "running", "reason": None}
        for answer in await asyncio.gather(*(admin.post("/api/demo/start") for _ in range(4))):
            assert body_of(answer) == running
        (process,) = eventually(lambda: demos(tmp_path))
        assert eventually(lambda: processes(tmp_path, "writer"), within_seconds=60)
        assert body_of(await admin.get("/api/demo")) == running
        assert body_of(await admin.post("/api/demo/start")) == running
        assert demos(tmp_path) == [process]
        noted: list[dict[str, Any]] = body_of(
            await admin.get("/api/events", params={"types": ["operator_action"]})
        )["items"]
        assert "orchestrator.start_demo" in {note["details"]["action"] for note in noted}
    eventually(lambda: not processes(tmp_path), within_seconds=60)
