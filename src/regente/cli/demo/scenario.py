"""The demo's scenario: start services, set faults, queue missions, kill a runner, report."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime

import httpx2

from regente.app import Regente
from regente.cli.demo import plan
from regente.cli.demo.report import QUERIES, DemoReport, make_report
from regente.cli.demo.screen import Screen
from regente.cli.output import plural
from regente.cli.up.stack import RUNNER_PREFIX, LocalStack
from regente.engine.errors import RegenteError
from regente.pipelines.missions.read_models import Mission

STUCK_SECONDS = 180.0
POLL_SECONDS = 0.3
KILL_AT_SHARE = 0.3
RUNNERS = 2


class DemoFailed(RegenteError):
    code = "DEMO_FAILED"


@dataclass(slots=True)
class DemoScenario:
    app: Regente
    stack: LocalStack
    screen: Screen
    ids: list[int] = field(default_factory=list)
    runners: int = 0
    killed: str | None = None

    async def run(self) -> DemoReport:
        await self._start()
        since = await self._now()
        missions = plan.demo_missions()
        self.screen.say(f"Queuing {plural(len(missions), 'mission')}.")
        started_at = time.monotonic()
        self.ids = await self.app.missions.create(missions, queue=True, by="demo")
        expected = {
            mission_id: plan.expectation_of(args)
            for mission_id, args in zip(self.ids, missions, strict=True)
        }
        found = await self._watch()
        await self._wait_until_closed()
        return await make_report(self.app, found, expected, since, time.monotonic() - started_at)

    async def cancel_missions(self) -> None:
        """Cancel the unfinished missions, so that no later runner starts them."""
        if self.ids:
            await self.app.missions.cancel_many(self.ids, by="demo")

    async def _start(self) -> None:
        self.screen.say(
            f"Starting a sandbox with {plan.PROXIES} proxies, {plan.WORKERS} workers, "
            f"a writer, {RUNNERS} runners."
        )
        library, _ = await asyncio.gather(
            self.stack.start_sandbox(plan.PROXIES, plan.SEED, plan.ADS_PER_CELL),
            self.stack.start_writer("demo-writer"),
        )
        names = [f"demo-worker-{number + 1}" for number in range(plan.WORKERS)]
        await asyncio.gather(
            *(self.stack.start_worker(name, library, plan.WORKER_ENVIRONMENT) for name in names)
        )
        async with httpx2.AsyncClient(trust_env=False) as client:
            for fault in plan.FAULTS:
                answer = await client.post(
                    f"{library}/admin/faults", json=fault.model_dump(mode="json", exclude_none=True)
                )
                answer.raise_for_status()
        for _ in range(RUNNERS):
            await self._start_runner()
        faults = ", ".join(fault.kind.value for fault in plan.FAULTS)
        self.screen.say(f"The ad library is at {library}. Faults: {faults}.")

    async def _start_runner(self) -> None:
        self.runners += 1
        await self.stack.start_runner(self.runners)

    async def _watch(self) -> list[Mission]:
        progress_at, done_before = time.monotonic(), -1
        while True:
            missions = sorted(
                await self.app.missions.find(ids=self.ids, limit=1000),
                key=lambda mission: mission.id,
            )
            self.screen.update(missions)
            done = sum(mission.finished_at is not None for mission in missions)
            if done == len(self.ids):
                return missions
            if done != done_before:
                progress_at, done_before = time.monotonic(), done
            if time.monotonic() - progress_at > STUCK_SECONDS:
                raise DemoFailed(
                    f"no mission has ended for {STUCK_SECONDS:.0f} s; "
                    f"{done} of {len(self.ids)} have"
                )
            if self.killed is None and done >= KILL_AT_SHARE * len(self.ids):
                await self._kill_runner()
            await self.stack.processes.restart_exited()
            await asyncio.sleep(POLL_SECONDS)

    async def _kill_runner(self) -> None:
        """Kill the runner with the most running tasks, and start another."""
        running = {runner.name: runner.running for runner in await self.app.runners()}
        names = [name for name in self.stack.processes.names if name.startswith(RUNNER_PREFIX)]
        self.killed = max(names, key=lambda name: running.get(name, 0))
        await self.stack.processes.kill(self.killed)
        tasks = plural(running.get(self.killed, 0), "running task")
        self.screen.say(f"Killed {self.killed} (SIGKILL) with {tasks}. The other takes over.")
        await self._start_runner()

    async def _wait_until_closed(self) -> None:
        """Wait until the orchestrator has closed: sessions ended, proxies free."""
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            members = await self.app.fleet.members()
            busy = [
                member
                for member in members
                if member.status not in ("idle", "free", "inactive", "active")
            ]
            if not busy and (await self.app.missions.orchestrator()).state == "closed":
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _now(self) -> datetime:
        (row,) = await QUERIES.fetch_all(self.app.database, "now")
        moment: datetime = row["clock"]
        return moment
