"""`python -m tests.engine.faults.chaos --seed 1 --tasks 100000 --kills 50`: exit 0 without
findings."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from rich.console import Console
from rich.table import Table

from tests.engine.faults.chaos.campaign import Campaign
from tests.engine.faults.chaos.plan import make_plan

EVIDENCE_LINES = 10


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
    console.print(
        f"seed {plan.seed}: {plan.tasks} tasks, {len(plan.faults)} faults over "
        f"{plan.feed_seconds:.0f} s"
    )
    for fault in plan.faults:
        console.print(f"  {fault}")
    findings = asyncio.run(Campaign(plan, console.print, skew=options.skew).run())
    table = Table(title=f"seed {plan.seed}", show_lines=False)
    for heading in ("", "check", "found"):
        table.add_column(heading)
    for finding in findings:
        evidence = "\n".join(finding.faults[:EVIDENCE_LINES])
        more = f"\n… {len(finding.faults)} in all" if len(finding.faults) > EVIDENCE_LINES else ""
        verdict = "[green]holds[/]" if finding.holds else "[red]BROKEN[/]"
        table.add_row(
            verdict,
            finding.check,
            finding.detail + (f"\n{evidence}{more}" if finding.faults else ""),
        )
    console.print(table)
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
