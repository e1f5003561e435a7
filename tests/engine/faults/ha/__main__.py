"""`python -m tests.engine.faults.ha --seed 1 --tasks 20000 --failovers 5 --kills 20`: exit 0
without findings."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from rich.console import Console

from tests.engine.faults.chaos.campaign import Campaign, new_folder
from tests.engine.faults.chaos.report import show_findings, show_plan
from tests.engine.faults.ha.environment import FailingOver
from tests.engine.faults.ha.plan import make_ha_plan
from tests.engine.faults.ha.programs import CannotInstallError
from tests.support.scratch import keep_in_memory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.faults.ha", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--failovers", type=int, default=5, help="faults of the cluster")
    parser.add_argument("--kills", type=int, default=20, help="faults of the runners")
    options = parser.parse_args()
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # connections are broken on purpose
    console = Console(width=150, highlight=False)
    plan = make_ha_plan(options.seed, options.tasks, options.failovers, options.kills)
    show_plan(console, plan)
    keep_in_memory()
    try:
        environment = FailingOver(new_folder())
    except CannotInstallError as error:
        console.print(f"No cluster can be built here: {error}")
        return 2
    console.print(environment.how)
    findings = asyncio.run(Campaign(plan, console.print, environment).run())
    show_findings(console, plan, findings)
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
