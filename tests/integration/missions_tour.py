"""Missions on any PostgreSQL: one completes, one is retried, one canceled; all views are read."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.missions.args import missions_of
from regente.settings import Settings
from tests.support.eventually import eventually_async
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in


async def take_missions_tour(url: str, folder: Path) -> None:
    settings = Settings(
        data_dir=folder,
        polling_session=0.05,
        polling_job=0.05,
        polling_orchestrator=0.05,
        watch_seconds=0.05,
        error_backoff=0.05,
    )
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.job_script = [[{"status": "failed"}]]
    async with (
        Regente(url, settings=settings, pipelines=Registry(), components=["missions"]) as app,
        worker.served() as there,
        writer.served() as too,
    ):
        app.conduct_missions()
        await app.fleet.add_worker("w", there, API_KEY, "storage.example.com")
        await app.fleet.add_writer("s", too, API_KEY)
        for number in range(2):
            await app.fleet.add_proxy(
                f"p{number}", "proxy.example.com", 8080 + number, "u", "a-password"
            )
        made = missions_of(date(2025, 1, 1), date(2025, 1, 3), ["video"], [["pt"]])
        ids = await app.missions.create(made)
        assert await app.missions.cancel(ids[2]) == "canceled"
        async with runner_in(app):
            assert await app.missions.queue(ids) == ids[:2]
            await eventually_async(lambda: _completed(app, 2), within_seconds=30)
            await eventually_async(lambda: _closed(app), within_seconds=30)
        first = await app.missions.get(ids[0])
        assert (first.retry_count, first.ads_count) == (1, 3)
        assert "retry_triggered" in [row["event"] for row in await app.missions.timeline(ids[0])]
        assert {member.status for member in await app.fleet.members("proxy")} == {"free"}


async def _completed(app: Regente, count: int) -> bool:
    return (await app.missions.counts())["completed"] == count


async def _closed(app: Regente) -> bool:
    members = [member.status for member in await app.fleet.members("worker")]
    return (await app.missions.orchestrator()).state == "closed" and members == ["idle"]
