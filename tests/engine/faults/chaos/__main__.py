"""`python -m tests.engine.faults.chaos --seed 1 --tasks 100000 --kills 50`: exit 0 without
findings."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from rich.console import Console

from tests.engine.faults.chaos.campaign import Campaign, new_folder
from tests.engine.faults.chaos.environment import TwoServers
from tests.engine.faults.chaos.plan import make_plan
from tests.engine.faults.chaos.report import show_findings, show_plan


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.engine.faults.chaos", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50, help="faults of all kinds")
    parser.add_argument(
        "--skew",
        action="store_true",
        help="runners with clocks 10 minutes ahead and behind (needs faketime)",
    )
    options = parser.parse_args()
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # connections are broken on purpose
    console = Console(width=150, highlight=False)
    plan = make_plan(options.seed, options.tasks, options.kills)
    show_plan(console, plan)
    environment = TwoServers(new_folder(), skew=options.skew)
    findings = asyncio.run(Campaign(plan, console.print, environment).run())
    show_findings(console, plan, findings)
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
