"""One day of missions with every ending, conducted by a real runner over real HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from regente import Regente
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.pipelines.missions.conftest import MISSION, QUICK, conducting, finished, until
from tests.support.peers import ScriptedWorker, ScriptedWriter, stored
from tests.support.running import runner_in

ADVANCING = [
    {"status": name}
    for name in ("initializing", "connecting", "authenticating", "warming_up", "ready")
]


@dataclass
class Day:
    """What happened, and the database that it happened in."""

    url: str
    worker: ScriptedWorker = field(default_factory=lambda: ScriptedWorker("w1"))
    writer: ScriptedWriter = field(default_factory=lambda: ScriptedWriter("s1"))
    missions: dict[str, int] = field(default_factory=dict)
    """The id of each mission by what became of it."""
    scrapes_of_the_recovered: int = 0

    async def pass_by(self, folder: Path) -> None:
        settings = Settings.model_validate({"data_dir": folder, **QUICK})
        async with Regente(self.url, settings=settings, pipelines=Registry()) as app:
            app.conduct_missions()
            self._script()
            async with conducting(app, self.worker, self.writer, proxies=3):
                await self._run(app, "stored", "empty")
                await self._run(app, "exhausted")
                await self._cancel(app)
                await self._until_closed(app)
            async with (
                self.worker.served(self._port(self.worker)),
                self.writer.served(self._port(self.writer)),
            ):
                await self._recover(app)

    def _script(self) -> None:
        self.worker.session_script = [ADVANCING, [{"status": "stuck"}]]
        self.worker.job_script = [
            [
                {"status": "pending"},
                {"status": "queued"},
                {"status": "running", "ads_count": 1, "progress_pct": 33},
                {"status": "completed", "ads_count": 3},
            ],
            [{"status": "empty"}],
            *([{"status": status}] for status in ("failed", "cancelled", "paused")),
            [{"status": "running"}],
        ]
        self.writer.job_script = [
            [
                {"status": "processing", "progress": {"processed": 1, "total": 3}},
                {"status": "failed", "error": "no space left"},
            ],
            [stored(2, failed=1)],
        ]

    async def _run(self, app: Regente, *names: str) -> None:
        ids = await app.missions.create([MISSION] * len(names), queue=True, by="ana")
        self.missions |= dict(zip(names, ids, strict=True))
        for one in ids:
            await finished(app, one)

    async def _cancel(self, app: Regente) -> None:
        """One on the worker, one in the queue behind it."""
        running, waiting = await app.missions.create([MISSION] * 2, queue=True, by="ana")
        self.missions |= {"canceled running": running, "canceled waiting": waiting}
        await until(
            app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL AND id = %(id)s", id=running
        )
        await app.missions.cancel(waiting, by="ana")
        await app.missions.cancel(running, by="ana")
        await finished(app, running)

    async def _until_closed(self, app: Regente) -> None:
        await until(app, "SELECT FROM orchestrator WHERE state = 'closed'")
        await until(app, "SELECT FROM workers WHERE status = 'idle'")

    async def _recover(self, app: Regente) -> None:
        """A second runner continues with the job of a mission whose first runner ended."""
        before = self.worker.count("POST", "/scrape")
        self.worker.gate.clear()
        async with runner_in(app):
            (self.missions["recovered"],) = await app.missions.create([MISSION], queue=True)
            await until(
                app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL AND status = 'running'"
            )
        async with runner_in(app):
            self.worker.gate.set()
            await finished(app, self.missions["recovered"])
            await self._until_closed(app)
        self.scrapes_of_the_recovered = self.worker.count("POST", "/scrape") - before

    @staticmethod
    def _port(peer: ScriptedWorker | ScriptedWriter) -> int:
        return int(peer.url.rpartition(":")[2])


def conduct(url: str, folder: Path) -> Day:
    day = Day(url)
    asyncio.run(day.pass_by(folder))
    return day
