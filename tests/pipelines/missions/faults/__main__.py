"""`python -m tests.pipelines.missions.faults --seed 1 --missions 300 --runners 3 --kills
20`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from regente import Regente
from regente.engine.pipeline import Registry
from regente.postgres.embedded import EmbeddedPostgres
from regente.settings import Settings
from tests.pipelines.missions.conftest import QUICK
from tests.pipelines.missions.faults.campaign import Campaign
from tests.pipelines.missions.faults.checker import faults_of, figures_of
from tests.pipelines.missions.faults.conftest import environment_with
from tests.pipelines.missions.faults.plan import Plan, make_plan
from tests.pipelines.missions.faults.runner_processes import ForkServer

WORKERS, PROXIES = 12, 8
TIMEOUT_SECONDS = 180.0


async def run(
    plan: Plan, console: Console, url: str, data_dir: Path, forkserver: ForkServer
) -> list[str]:
    settings = Settings(data_dir=data_dir, **QUICK)  # type: ignore[arg-type]
    async with (
        Regente(url, settings=settings, pipelines=Registry(), components=["missions"]) as app,
        environment_with(app, forkserver, data_dir, workers=WORKERS, proxies=PROXIES) as env,
    ):
        campaign = Campaign(env, plan, console.print)
        await campaign.run(TIMEOUT_SECONDS)
        console.print(figures_of(campaign))
        return await faults_of(campaign)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.pipelines.missions.faults", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--missions", type=int, default=300)
    parser.add_argument("--runners", type=int, default=3)
    parser.add_argument(
        "--kills",
        type=int,
        default=20,
        help="process faults of all kinds: SIGKILL, SIGSTOP past the lease, SIGTERM",
    )
    options = parser.parse_args()
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    console = Console(width=150, highlight=False)
    plan = make_plan(options.seed, options.missions, options.runners, options.kills)
    console.print(
        f"seed {plan.seed}: {len(plan.missions)} missions, {plan.runners} "
        f"runners, {len(plan.process_faults)} process faults"
    )
    for planned in plan.process_faults:
        console.print(f"  {planned}")
    forkserver = ForkServer()
    with tempfile.TemporaryDirectory(
        prefix="regente-missions-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the server of a root user runs as another one
        server = EmbeddedPostgres.acquire(Path(folder) / "data")
        try:
            faults = asyncio.run(run(plan, console, server.url, Path(folder), forkserver))
        finally:
            forkserver.close()
            server.release()
    for fault in faults[:30]:
        console.print(f"[red]BROKEN[/] {fault}", soft_wrap=True)
    console.print(
        f"seed {plan.seed}: {len(faults)} faults"
        if faults
        else f"seed {plan.seed}: everything holds"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
